// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/gpu_hooks.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <atomic>
#include <mutex>

// How LibTorch finds its code for GPUs. It calls getCUDAHooks(), and its own function of that name keeps its first
// answer for the rest of the process. torch::manual_seed(), the first line of most programs, calls it. So LibTorch
// would remember that there is no code for GPUs, from before liblockstep_cuda.so or liblockstep_hip.so brings it. Both
// of LibTorch's libraries look the function up by its name in the program. A program that is linked with this file
// therefore uses the function in this file, which looks again once the library is loaded. In a program that hides its
// symbols, such as a Python extension, LibTorch uses its own function. Then load_gpu_backend() throws an error that
// says what to do.

namespace lockstep {
namespace {

// True once the library has registered its code with LibTorch. It never becomes false again.
std::atomic<bool> has_loaded = false;

}  // namespace

void look_for_gpu_code_again() { has_loaded = true; }

void share_seed(const c10::Device& device) {
  static std::once_flag once;
  if (!at::globalContext().hasCUDART()) return;
  std::call_once(once, [&] {
    const auto seed = at::globalContext().defaultGenerator(c10::kCPU).current_seed();
    auto generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(seed);
  });
}

}  // namespace lockstep

const at::CUDAHooksInterface& at::detail::getCUDAHooks() {
  static const CUDAHooksInterface none;
  static const bool is_linked = CUDAHooksRegistry()->Has("CUDAHooks");
  if (!is_linked && !lockstep::has_loaded) return none;
  static const auto hooks = CUDAHooksRegistry()->Create("CUDAHooks", CUDAHooksArgs{});
  return hooks ? *hooks : none;
}
