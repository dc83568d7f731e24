// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Returns the `torch` folder of the PyTorch that `python` would import here, below root. Empty if there is no PyTorch.
std::filesystem::path torch_folder(const DoctorContext& of);

/// Returns a value from the folder's version.py: such as "12.6" for the key "cuda", "6.3.42131" for "hip", and
/// "2.9.1+cu126" for "__version__". Empty if the file has no such value.
std::string torch_version(const std::filesystem::path& folder, const std::string& key);

/// Checks that the PyTorch that this environment would start can use the node's devices.
void check_torch(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
