// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/doctor.h"

namespace lockstep {

/// What the dynamic loader reads of a library.
struct SharedLibrary {
  std::vector<std::string> needed{};     ///< "libfabric.so.1"
  std::vector<std::string> run_path{};   ///< Folders that it brings along for those; $ORIGIN is filled in.
  std::vector<std::string> provides{};   ///< Versions of its symbols: "GLIBCXX_3.4.30".
  std::vector<std::string> requires_{};  ///< The same of other libraries.
};

/// Maps the file and reads its dynamic section only; nothing where it is no 64-bit library of this machine's byte
/// order.
///
/// Source: elf(5); the GNU version sections are in the Linux Standard Base, "Symbol Versioning".
std::optional<SharedLibrary> shared_library(const std::filesystem::path& path);

/// Of `versions`, the highest that begins with `prefix`: "3.4.30" for "GLIBCXX_"; empty where there is none.
std::string newest_version(const std::vector<std::string>& versions, std::string_view prefix);

/// A claim: "3.4.9" comes before "3.4.30".
bool is_older(std::string_view version, std::string_view than);

/// Where the loader finds `name`: LD_LIBRARY_PATH, then `run_path`, then the folders of /etc/ld.so.conf, then its own.
/// The path is below `root`; empty where it is nowhere.
std::filesystem::path found_library(const Examination& of, const std::string& name,
                                    const std::vector<std::string>& run_path = {});

/// The folders of LD_LIBRARY_PATH.
std::vector<std::filesystem::path> library_path(const Examination& of);

/// A library that `path` needs, by way of others too, and that the loader does not find; empty where all are there.
/// Those of the C library and the compiler are taken to be there.
std::string missing_library(const Examination& of, const std::filesystem::path& path);

}  // namespace lockstep
