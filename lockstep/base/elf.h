// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The entries of a shared library that the dynamic loader reads.
struct SharedLibrary {
  std::vector<std::string> needed{};     ///< "libfabric.so.1"
  std::vector<std::string> run_path{};   ///< Folders to search for those. $ORIGIN is replaced.
  std::vector<std::string> provides{};   ///< Symbol versions, such as "GLIBCXX_3.4.30".
  std::vector<std::string> requires_{};  ///< Symbol versions of other libraries.
};

/// Maps the file and reads its dynamic section only. Returns nullopt if the file is not a 64-bit library of this
/// machine's byte order.
///
/// Source: elf(5); the GNU version sections are in the Linux Standard Base, "Symbol Versioning".
std::optional<SharedLibrary> shared_library(const std::filesystem::path& path);

/// Returns the name of the function at each offset in an ELF file, in the file's own order of `offsets`. C++ names are
/// readable and have no parameters. A name is empty if no symbol covers the offset, or if the file cannot be read.
///
/// Source: elf(5).
std::vector<std::string> function_names(const std::filesystem::path& path, const std::vector<std::uint64_t>& offsets);

/// Returns a C++ function's name without parameters and return type, such as "lockstep::Loader::next" for
/// "lockstep::Loader::next()".
std::string without_parameters(std::string_view function);

/// Returns the highest of the `versions` that begin with `prefix`, such as "3.4.30" for "GLIBCXX_". Empty if there is
/// none.
std::string newest_version(const std::vector<std::string>& versions, std::string_view prefix);

/// True if `version` is lower than `than`, compared number by number, as "3.4.9" is lower than "3.4.30".
bool is_older(std::string_view version, std::string_view than);

}  // namespace lockstep
