// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>

#include "lockstep/device/device.h"
#include "lockstep/device/gpu_library.h"

namespace lockstep {
namespace {

// A node whose library for GPUs is the fake one of this test.
NodeDevices node() {
  return {.has_gpus = true, .backend = []() -> const DeviceBackend& {
            const std::array<std::filesystem::path, 1> folders{PRETENDED_LIBRARY_FOLDER};
            return load_gpu_backend("libpretended_gpu.so", folders);
          }};
}

TEST(AGpuLibraryThatComesLate, IsSeenAfterTheSeedAndTakesItOver) {
  torch::manual_seed(7);
  EXPECT_FALSE(torch::cuda::is_available());
  const auto device = chosen_device({}, node());
  EXPECT_TRUE(at::globalContext().hasCUDART());
  const auto& generator = at::globalContext().defaultGenerator(device.device);
  EXPECT_EQ(generator.current_seed(), 7U);
  torch::manual_seed(8);
  EXPECT_EQ(generator.current_seed(), 8U) << "from now on LibTorch seeds it";
}

TEST(AGpuLibraryThatComesLate, KeepsTheSeedThatItsDeviceHasOnceThatIsInUse) {
  const auto device = chosen_device({}, node());
  auto generator = at::globalContext().defaultGenerator(device.device);
  generator.set_current_seed(11);
  chosen_device({}, node());
  EXPECT_EQ(generator.current_seed(), 11U);
}

}  // namespace
}  // namespace lockstep
