// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "lockstep/device/backend.h"

namespace lockstep {

/// All that names CUDA, HIP, NCCL or RCCL lies in a library of its own: liblockstep_cuda.so or liblockstep_hip.so. So a
/// program starts on a node without a driver, and one build serves login and compute nodes.

/// "liblockstep_cuda.so" on a node with NVIDIA's driver, "liblockstep_hip.so" on one with AMD's.
std::string gpu_library_name();

/// Loads `library` from the first of `folders` that has it, or else from where the system's loader finds it. It stays
/// loaded to the end of the process.
///
/// LibTorch may have been asked for a device before, and have had none.
/// Throws: Error(kEnvironment) where there is none, where it cannot be loaded, or where LibTorch does not see it.
const DeviceBackend& load_gpu_backend(const std::string& library, std::span<const std::filesystem::path> folders);

/// The backend of this node's GPUs. Loaded once: beside the program, or in the folder of libraries beside its own.
/// Throws: as load_gpu_backend().
const DeviceBackend& gpu_backend();

}  // namespace lockstep

/// The one name that the library exports; the number goes up with a change of backend.h or collective_maker.h.
extern "C" const lockstep::DeviceBackend* lockstep_gpu_backend_2();
