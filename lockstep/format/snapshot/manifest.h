// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/format/hashed_file.h"

namespace lockstep {

/// The file that says what a snapshot holds, and its name within the snapshot.
inline constexpr std::string_view kManifestName = "MANIFEST";

/// One file of a snapshot.
struct ManifestEntry {
  std::string file;
  WrittenFile written;
};

/// A claim: `file` may stand in a MANIFEST. It names a file directly within the snapshot: no '/', no "." or "..", no
/// control character, not MANIFEST itself.
bool is_manifest_file_name(std::string_view file);

/// A MANIFEST's text. docs/snapshot-format.md gives its lines.
std::string manifest_text(std::span<const ManifestEntry> entries);

/// The entries of a MANIFEST. What is accepted is exactly what manifest_text() writes.
///
/// Throws: Error(kData) with `name`, the line, the value found and wanted.
std::vector<ManifestEntry> parsed_manifest(std::string_view text, const std::string& name);

}  // namespace lockstep
