// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Returns the path at which the dynamic loader finds `name`, below `root`. Empty if the loader does not find it. It
/// searches LD_LIBRARY_PATH, then `run_path`, then the folders of /etc/ld.so.conf, then its own.
std::filesystem::path found_library(const DoctorContext& of, const std::string& name,
                                    const std::vector<std::string>& run_path = {});

/// Returns the folders of LD_LIBRARY_PATH.
std::vector<std::filesystem::path> library_path(const DoctorContext& of);

/// Returns the first library that `path` needs, directly or through others, and that the loader does not find. Empty if
/// all are found. Libraries of the C library and of the compiler are not searched.
std::string missing_library(const DoctorContext& of, const std::filesystem::path& path);

}  // namespace lockstep
