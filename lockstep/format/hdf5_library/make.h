// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/format/hdf5/hdf5.h"

namespace lockstep::hdf5 {

/// Does the work of make_hdf5() inside the library.
void make_file(const std::filesystem::path& path, const std::string& kind, std::vector<Hdf5Plan>& plans);

}  // namespace lockstep::hdf5
