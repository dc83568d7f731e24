// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>
#include <iostream>

#include "lockstep/base/error.h"
#include "lockstep/device/gpu_library.h"

// Loads the named library, and prints its facts about the node: one line for the runtime, and one for each device.
int main(int argc, char** argv) {
  const std::filesystem::path library = argc > 1 ? argv[1] : lockstep::gpu_library_name();
  const std::array<std::filesystem::path, 1> folders{library.parent_path()};
  try {
    const auto& backend = lockstep::load_gpu_backend(library.filename().string(), folders);
    const auto runtime = backend.runtime();
    std::cout << runtime.kind << " " << runtime.runtime << ", " << runtime.collectives << std::endl;
    for (const auto& each : backend.devices()) std::cout << each.index << " " << each.name << std::endl;
  } catch (const lockstep::Error& error) {
    std::cout << error.what() << std::endl;
    return exit_code(error.kind());
  }
  return 0;
}
