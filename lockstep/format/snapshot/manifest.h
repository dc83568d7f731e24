// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The MANIFEST of a snapshot: which run and step it is of, and its files with their sizes and checksums.
///
///     const lockstep::MappedFile file("snapshots/latest/MANIFEST");
///     const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
///     for (const auto& entry : lockstep::parsed_manifest(text, "MANIFEST").entries) {
///       std::cout << entry.file << ": " << entry.bytes << " bytes\n";
///     }

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The name of the MANIFEST within a snapshot.
inline constexpr std::string_view kManifestName = "MANIFEST";

/// How a MANIFEST checks bytes. Lockstep writes XXH3; Python, which has none of its own, writes zlib's CRC-32.
enum class ChecksumKind { kXxh3, kCrc32 };

/// Returns a checksum as a MANIFEST has it: 16 lower-case hexadecimal digits, or 8 of a CRC-32.
std::string checksum_text(ChecksumKind kind, std::uint64_t checksum);

/// One file of a snapshot.
struct ManifestEntry {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;

  bool operator==(const ManifestEntry&) const = default;
};

/// What a MANIFEST says.
struct Manifest {
  ChecksumKind checksum = ChecksumKind::kXxh3;
  std::string run;                   ///< As run_id_of() has it; empty in version 1.
  std::optional<std::int64_t> step;  ///< The step that was saved; none in version 1.
  std::vector<ManifestEntry> entries;

  bool operator==(const Manifest&) const = default;
};

/// True if a MANIFEST may list `file`. It must be the name of a file directly within the snapshot: no '/', no "." or
/// "..", no control character, and not MANIFEST itself.
bool is_manifest_file_name(std::string_view file);

/// True if `text` is the name of a run: 32 lower-case hexadecimal digits.
bool is_run_id(std::string_view text);

/// Returns a MANIFEST's text: of version 2 where a step is given, of version 1 otherwise. docs/snapshot-format.md
/// describes its lines.
std::string manifest_text(const Manifest& manifest);

/// Returns what a MANIFEST says. It accepts exactly the texts that manifest_text() writes.
///
/// Throws: Error(kData) with `name`, the line, the value found and wanted.
Manifest parsed_manifest(std::string_view text, const std::string& name);

}  // namespace lockstep
