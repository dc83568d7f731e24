// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "lockstep/base/text.h"
#include "lockstep/data/source/python_source.h"
#include "tests/support/source_root.h"

namespace lockstep::testing {

/// Returns the data set of a function or class in `file`, for the first python3 on PATH. It needs no PyTorch.
inline PythonData python_data(const std::filesystem::path& file, const std::string& function,
                              const std::string& arguments = "{}") {
  std::filesystem::path python = "python3";
  for (const auto& folder : split(std::getenv("PATH"), ':')) {
    if (std::error_code ignored; std::filesystem::exists(folder / python, ignored)) {
      python = folder / python;
      break;
    }
  }
  return {.python = python,
          .host = source_root() / "python/lockstep_host",
          .source = file,
          .function = function,
          .arguments = arguments};
}

}  // namespace lockstep::testing
