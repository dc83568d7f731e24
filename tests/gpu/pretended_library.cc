// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "lockstep/device/gpu_library.h"
#include "tests/support/fake_device.h"

// A fake of liblockstep_cuda.so that needs no device. When it is loaded, it registers code for GPUs with LibTorch, with
// a generator of random numbers of its own.
namespace at {
namespace {

struct PretendedHooks : CUDAHooksInterface {
  explicit PretendedHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  const Generator& getDefaultGenerator(DeviceIndex) const override {
    static const Generator generator = detail::createCPUGenerator();
    return generator;
  }
};
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", PretendedHooks)

}  // namespace
}  // namespace at

extern "C" __attribute__((visibility("default"))) const lockstep::DeviceBackend* lockstep_gpu_backend_3() {
  static const lockstep::testing::FakeBackend backend(1);
  return &backend;
}
