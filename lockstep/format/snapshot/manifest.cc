// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/manifest.h"

#include <algorithm>
#include <optional>
#include <set>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kFirstLine = "lockstep-snapshot 1";
constexpr std::size_t kSumDigits = 16;

constexpr std::string_view kDamaged = "this snapshot is damaged; resume from the one before it";

[[noreturn]] void fail(const std::string& name, const std::string& fact, std::string_view hint = kDamaged) {
  throw Error(ErrorKind::kData, name + ": " + fact, hint);
}

/// `text` in quotes, cut short and without what would disturb a terminal.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kMost)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (text.size() > kMost ? "...'" : "'");
}

std::optional<std::uint64_t> parsed_sum(std::string_view digits) {
  const bool canonical = digits.size() == kSumDigits && std::ranges::all_of(digits, [](char c) {
                           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                         });
  if (!canonical) return std::nullopt;
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

/// The text before the last line, once that line's checksum has been found right.
std::string_view checked_body(std::string_view text, const std::string& name) {
  if (!text.ends_with('\n')) fail(name, "the last line is cut short, want a line end after the checksum");
  const auto before = text.substr(0, text.size() - 1).rfind('\n');
  const std::size_t at = before == std::string_view::npos ? 0 : before + 1;
  const std::string_view last = text.substr(at, text.size() - 1 - at);
  const auto found = parsed_sum(last);
  if (!found) fail(name, "the last line is " + shown(last) + ", want a checksum of 16 hexadecimal digits");
  const std::string_view body = text.substr(0, at);
  const std::uint64_t wanted = xxh3_64(body);
  if (*found != wanted) {
    fail(name, "the lines have the checksum " + hex64(wanted) + ", want " + hex64(*found) + " as the last line says");
  }
  return body;
}

ManifestEntry parsed_line(std::string_view line, const std::string& where) {
  const auto bytes_at = kSumDigits + 2;
  const auto gap = line.find("  ", std::min(bytes_at, line.size()));
  if (gap == std::string_view::npos || line.substr(kSumDigits, 2) != "  ") {
    fail(where, "found " + shown(line) + ", want '<checksum>  <bytes>  <name>'");
  }
  const auto sum = parsed_sum(line.substr(0, kSumDigits));
  const std::string_view digits = line.substr(bytes_at, gap - bytes_at);
  const auto bytes = parsed_int<std::uint64_t>(digits);
  const std::string_view file = line.substr(gap + 2);
  if (!sum) fail(where, "the checksum is " + shown(line.substr(0, kSumDigits)) + ", want 16 hexadecimal digits");
  if (!bytes || std::to_string(*bytes) != digits) fail(where, "the size is " + shown(digits) + ", want a whole number");
  if (!is_manifest_file_name(file)) {
    fail(where, "the file's name is " + shown(file) + ", want one directly within the snapshot");
  }
  return {std::string(file), {.bytes = *bytes, .xxh3 = *sum}};
}

}  // namespace

bool is_manifest_file_name(std::string_view file) {
  return !file.empty() && file != "." && file != ".." && file != kManifestName &&
         std::ranges::none_of(file,
                              [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string manifest_text(std::span<const ManifestEntry> entries) {
  std::string text(kFirstLine);
  text += '\n';
  for (const auto& [file, written] : entries) {
    LOCKSTEP_ASSERT(is_manifest_file_name(file));
    text += hex64(written.xxh3) + "  " + std::to_string(written.bytes) + "  " + file + "\n";
  }
  return text + hex64(xxh3_64(text)) + "\n";
}

std::vector<ManifestEntry> parsed_manifest(std::string_view text, const std::string& name) {
  std::string_view body = checked_body(text, name);
  std::vector<ManifestEntry> entries;
  std::set<std::string, std::less<>> seen;
  for (int number = 1; !body.empty(); ++number) {
    const std::string_view line = body.substr(0, body.find('\n'));
    body.remove_prefix(line.size() + 1);
    if (number == 1) {
      if (line != kFirstLine) {
        fail(name, "the first line is " + shown(line) + ", want " + shown(kFirstLine),
             "it was not written by this version of Lockstep; use the version that wrote it");
      }
      continue;
    }
    const std::string where = name + ":" + std::to_string(number);
    entries.push_back(parsed_line(line, where));
    if (!seen.insert(entries.back().file).second) {
      fail(where, shown(entries.back().file) + " is listed twice, want each file once");
    }
  }
  if (seen.empty()) fail(name, "no file is listed, want at least one");
  return entries;
}

}  // namespace lockstep
