// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "lockstep/device/backend.h"

namespace lockstep {

/// Returns the name of the library with all code that uses CUDA, HIP, NCCL or RCCL, liblockstep_cuda.so or
/// liblockstep_hip.so. Since it is separate, a program starts on a node without a driver, and one build serves login
/// and compute nodes.

/// Returns "liblockstep_cuda.so" on a node with NVIDIA's driver, and "liblockstep_hip.so" on a node with AMD's.
std::string gpu_library_name();

/// Loads `library` from the first of `folders` that has it, or else from where the system's loader finds it. The
/// library stays loaded until the process ends.
///
/// This works even if LibTorch was asked for a device before and found none. Throws: Error(kEnvironment) if there is no
/// such library, if it cannot be loaded, or if LibTorch does not see its code.
const DeviceBackend& load_gpu_backend(const std::string& library, std::span<const std::filesystem::path> folders);

/// Returns the backend of this node's GPUs. It is loaded once, from beside the program or from the folder of libraries
/// beside the program's.
/// Throws: as load_gpu_backend().
const DeviceBackend& gpu_backend();

}  // namespace lockstep

/// The one name that the library exports. The number goes up with a change of backend.h or collective_maker.h.
extern "C" const lockstep::DeviceBackend* lockstep_gpu_backend_3();
