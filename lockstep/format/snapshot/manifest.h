// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The MANIFEST of a snapshot: its files with their sizes and checksums.
///
///     const lockstep::MappedFile file("snapshots/latest/MANIFEST");
///     const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
///     for (const auto& entry : lockstep::parsed_manifest(text, "MANIFEST")) {
///       std::cout << entry.file << ": " << entry.written.bytes << " bytes\n";
///     }

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/format/hashed_file.h"

namespace lockstep {

/// The name of the MANIFEST within a snapshot.
inline constexpr std::string_view kManifestName = "MANIFEST";

/// One file of a snapshot.
struct ManifestEntry {
  std::string file;
  WrittenFile written;
};

/// True if a MANIFEST may list `file`. It must be the name of a file directly within the snapshot: no '/', no "." or
/// "..", no control character, and not MANIFEST itself.
bool is_manifest_file_name(std::string_view file);

/// Returns a MANIFEST's text. docs/snapshot-format.md describes its lines.
std::string manifest_text(std::span<const ManifestEntry> entries);

/// Returns the entries of a MANIFEST. It accepts exactly the texts that manifest_text() writes.
///
/// Throws: Error(kData) with `name`, the line, the value found and wanted.
std::vector<ManifestEntry> parsed_manifest(std::string_view text, const std::string& name);

}  // namespace lockstep
