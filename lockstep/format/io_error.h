// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep {

/// Error(kIo) for a system call that failed: what was tried, on what, the system's reason, and the way out.
Error io_error(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace lockstep
