// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/system_files.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep {

namespace fs = std::filesystem;

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string text_or_nothing(const fs::path& path) {
  try {
    return text_of_file(path);
  } catch (const Error&) {
    return {};
  }
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  // A range-based for would throw where a later read fails, as one of a network file system may.
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lockstep
