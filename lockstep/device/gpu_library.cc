// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/gpu_library.h"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/own_file.h"
#include "lockstep/device/gpu_hooks.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCpuHint = "set trainer.accelerator = \"cpu\" to train on CPU all the same";

fs::path place_of(const std::string& library, std::span<const fs::path> folders) {
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / library, ignored)) return folder / library;
  }
  return library;
}

[[noreturn]] void refuse(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::kEnvironment, fact, hint + "; or " + kCpuHint);
}

[[noreturn]] void refuse_unloadable(const fs::path& place) {
  const char* said = ::dlerror();
  const std::string reason = said != nullptr ? said : "no reason given";
  if (place.has_parent_path()) {
    refuse("this node has GPUs, but " + place.string() + " cannot be loaded: " + reason,
           "install the PyTorch that Lockstep was built against with all that it needs (pip install torch does), or "
           "build for the one that is here with `lockstep setup`");
  }
  refuse("this node has GPUs, but this build of lockstep-train computes on CPU only: " + place.string() +
             " is not beside it",
         "build where a CUDA or ROCm PyTorch, its toolkit's headers and nccl.h are found (docs/guide/gpu.md)");
}

}  // namespace

std::string gpu_library_name() {
  return ::access("/dev/nvidiactl", F_OK) == 0 ? "liblockstep_cuda.so" : "liblockstep_hip.so";
}

const DeviceBackend& load_gpu_backend(const std::string& library, std::span<const fs::path> folders) {
  const fs::path place = place_of(library, folders);
  // The libraries are loaded with RTLD_GLOBAL. So LibTorch's libraries find each other's symbols, as in a program that
  // is linked with them.
  void* handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) refuse_unloadable(place);
  const auto entry = reinterpret_cast<decltype(&lockstep_gpu_backend_3)>(::dlsym(handle, "lockstep_gpu_backend_3"));
  if (entry == nullptr) {
    refuse(place.string() + " is of another Lockstep, or no such library", "install Lockstep as a whole again");
  }
  look_for_gpu_code_again();
  if (!at::globalContext().hasCUDART()) {
    refuse("LibTorch says that it has no GPU code, though " + place.string() + " has just brought it",
           "choose the device (lockstep::join) before anything else asks LibTorch for one, torch::manual_seed() and "
           "torch::cuda::is_available() included");
  }
  return *entry();
}

const DeviceBackend& gpu_backend() {
  static const DeviceBackend& loaded = []() -> const DeviceBackend& {
    const fs::path programs = own_file().parent_path();
    const std::array<fs::path, 2> folders{programs, (programs / LOCKSTEP_LIBRARIES_FROM_PROGRAMS).lexically_normal()};
    return load_gpu_backend(gpu_library_name(), folders);
  }();
  return loaded;
}

}  // namespace lockstep
