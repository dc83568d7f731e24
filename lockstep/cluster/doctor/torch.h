// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// The `torch` folder of the PyTorch that `python` would import here, below root. Empty if there is none.
std::filesystem::path torch_folder(const DoctorContext& of);

/// "12.6" for `key` "cuda" in the folder's version.py, "6.3.42131" for "hip", "2.9.1+cu126" for "__version__". Empty if
/// it has none.
std::string torch_version(const std::filesystem::path& folder, const std::string& key);

/// Checks that the PyTorch that this environment would start can use the node's devices.
void check_torch(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
