// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The MANIFEST of a snapshot. It names the run and the step, and lists files with sizes and checksums.
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

/// The kind of checksum in a MANIFEST. Lockstep writes XXH3. lockstep.py writes zlib's CRC-32, since Python has no
/// XXH3.
enum class ChecksumKind { kXxh3, kCrc32 };

/// Returns a checksum as in a MANIFEST, 16 lower-case hexadecimal digits, or 8 for a CRC-32.
std::string checksum_text(ChecksumKind kind, std::uint64_t checksum);

/// One file of a snapshot.
struct ManifestEntry {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;

  bool operator==(const ManifestEntry&) const = default;
};

/// The content of a MANIFEST.
struct Manifest {
  ChecksumKind checksum = ChecksumKind::kXxh3;
  std::string run;                   ///< As from run_id_of(). Empty in version 1.
  std::optional<std::int64_t> step;  ///< The step that was saved. None in version 1.
  std::vector<ManifestEntry> entries;

  bool operator==(const Manifest&) const = default;
};

/// True if a MANIFEST may list `file`. It must be the name of a file directly within the snapshot. So it has no '/' and
/// no control character, and is not ".", ".." or MANIFEST.
bool is_manifest_file_name(std::string_view file);

/// True if `text` is a run's id, which is 32 lower-case hexadecimal digits.
bool is_run_id(std::string_view text);

/// Returns a MANIFEST's text. It is of version 2 if a step is given, else of version 1. docs/formats/snapshot-format.md
/// describes its lines.
std::string manifest_text(const Manifest& manifest);

/// Parses a MANIFEST. It accepts exactly the texts that manifest_text() writes.
///
/// Throws: Error(kData) with `name`, the line, the value found and wanted.
Manifest parsed_manifest(std::string_view text, const std::string& name);

}  // namespace lockstep
