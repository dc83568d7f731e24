// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/format/hdf5/hdf5.h"

namespace lockstep::hdf5 {

/// What make_hdf5() does, on the library's side.
void make_file(const std::filesystem::path& path, const std::string& kind, std::vector<Hdf5Plan>& plans);

}  // namespace lockstep::hdf5
