// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/library_search.h"

#include <algorithm>
#include <array>
#include <set>

#include "lockstep/base/elf.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 6> kLoaderFolders = {
    "/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"};

/// Returns the folders in /etc/ld.so.conf and in the files that it includes.
void add_configured(const DoctorContext& of, const fs::path& file, std::vector<fs::path>& folders, int depth = 0) {
  for (const auto& raw : split(text_or_nothing(of.at_root(file)), '\n')) {
    const std::string line(trimmed(split(raw, '#').front()));
    if (line.starts_with("include ") && depth < 4) {
      const fs::path pattern = file.parent_path() / std::string(trimmed(line.substr(8)));
      for (const auto& name : names_in(of.at_root(pattern.parent_path()))) {
        if (name.ends_with(pattern.extension().string())) {
          add_configured(of, pattern.parent_path() / name, folders, depth + 1);
        }
      }
    } else if (line.starts_with('/')) {
      folders.emplace_back(line);
    }
  }
}

bool is_of_the_system(const std::string& name) {
  constexpr std::array<std::string_view, 10> kNames = {"libc.so",    "libm.so",     "libdl.so",    "libpthread.so",
                                                       "librt.so",   "ld-linux",    "libgcc_s.so", "libstdc++.so",
                                                       "linux-vdso", "libresolv.so"};
  return std::ranges::any_of(kNames, [&](auto prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<fs::path> library_path(const DoctorContext& of) {
  std::vector<fs::path> folders;
  for (const auto& folder : split(of.env.get("LD_LIBRARY_PATH").value_or(""), ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

fs::path found_library(const DoctorContext& of, const std::string& name, const std::vector<std::string>& run_path) {
  auto folders = library_path(of);
  const auto own = of.root.string();
  for (const auto& folder : run_path) {
    // $ORIGIN was replaced by a path that already begins with `root`.
    const bool is_below = own != "/" && folder.starts_with(own);
    folders.emplace_back(is_below ? "/" + fs::path(folder).lexically_relative(own).string() : folder);
  }
  add_configured(of, "/etc/ld.so.conf", folders);
  folders.insert(folders.end(), kLoaderFolders.begin(), kLoaderFolders.end());
  std::error_code none;
  for (const auto& folder : folders) {
    const auto path = of.at_root(folder) / name;
    if (fs::exists(path, none)) return path;
  }
  return {};
}

std::string missing_library(const DoctorContext& of, const fs::path& path) {
  std::set<std::string> seen;
  std::vector<fs::path> open_ones = {path};
  while (!open_ones.empty()) {
    const auto library = shared_library(open_ones.back());
    open_ones.pop_back();
    if (!library) continue;
    for (const auto& name : library->needed) {
      if (is_of_the_system(name) || !seen.insert(name).second) continue;
      const auto found = found_library(of, name, library->run_path);
      if (found.empty()) return name;
      open_ones.push_back(found);
    }
  }
  return {};
}

}  // namespace lockstep
