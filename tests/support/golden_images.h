// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/format/image/image.h"
#include "tests/support/source_root.h"

namespace lockstep::testing {

/// A file of tests/golden/images.
inline std::filesystem::path golden_path(const std::string& name) {
  return source_root() / "tests/golden/images" / name;
}

/// Returns the value of `key` in a JSON file of the golden folder. It is returned by value, so that a loop over it
/// keeps it alive.
inline nlohmann::json golden_numbers(const std::string& name, const std::string& key) {
  return nlohmann::json::parse(text_of_file(golden_path(name))).at(key);
}

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

inline Image image_of_file(const std::filesystem::path& path) {
  const std::string bytes = text_of_file(path);
  return ImageDecoder(bytes_of(bytes), path.filename().string()).decoded();
}

inline Image golden_image(const std::string& name) { return image_of_file(golden_path(name)); }

inline std::uint32_t crc_of(const Image& image) {
  return static_cast<std::uint32_t>(::crc32_z(0, image.bytes().data(), static_cast<z_size_t>(image.bytes().size())));
}

/// Returns the folder with the photographs of ants and bees, or nothing if they are not on this machine.
/// LOCKSTEP_TEST_DATA names the folder that has hymenoptera/.
inline std::optional<std::filesystem::path> hymenoptera() {
  const char* named = std::getenv("LOCKSTEP_TEST_DATA");
  const auto root = source_root();
  const auto folder = (named != nullptr ? std::filesystem::path(named) : root / "../shared/data") / "hymenoptera";
  if (!std::filesystem::is_directory(folder)) return {};
  return folder;
}

inline constexpr const char* kNoHymenoptera = "no hymenoptera/ in LOCKSTEP_TEST_DATA (default ../shared/data)";

}  // namespace lockstep::testing
