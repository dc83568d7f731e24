// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/manifest.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kFormat = "lockstep-snapshot ";
constexpr std::size_t kRunDigits = 32;

constexpr std::string_view kDamaged = "this snapshot is damaged; resume from the one before it";

[[noreturn]] void fail(const std::string& name, const std::string& fact, std::string_view hint = kDamaged) {
  throw Error(ErrorKind::kData, name + ": " + fact, hint);
}

/// Returns `text` in quotes, shortened and without control characters, for a message.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kMost)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (text.size() > kMost ? "...'" : "'");
}

bool is_hex(std::string_view digits) {
  return std::ranges::all_of(digits, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::size_t digits_of(ChecksumKind kind) { return kind == ChecksumKind::kXxh3 ? 16 : 8; }

std::string_view name_of(ChecksumKind kind) { return kind == ChecksumKind::kXxh3 ? "xxh3" : "crc32"; }

std::uint64_t sum_of(ChecksumKind kind, std::string_view text) {
  if (kind == ChecksumKind::kXxh3) return xxh3_64(text);
  return ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
}

std::optional<std::uint64_t> parsed_sum(ChecksumKind kind, std::string_view digits) {
  if (digits.size() != digits_of(kind) || !is_hex(digits)) return std::nullopt;
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

std::string wanted_digits(ChecksumKind kind) { return std::to_string(digits_of(kind)) + " hexadecimal digits"; }

/// Reads a MANIFEST from its first line to its last.
class ManifestReader {
 public:
  ManifestReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Manifest read() {
    const auto version = read_version();
    check_seal();
    if (version == 2) read_identity();
    while (!text_.empty()) read_file();
    if (manifest_.entries.empty()) fail(name_, "no file is listed, want at least one");
    return std::move(manifest_);
  }

 private:
  /// Removes the next line from the text, and returns it.
  std::string_view line() {
    const auto line = text_.substr(0, text_.find('\n'));
    text_.remove_prefix(std::min(text_.size(), line.size() + 1));
    ++number_;
    return line;
  }

  std::string where() const { return name_ + ":" + std::to_string(number_); }

  /// Reads the version from the first line. Also reads the checksum's kind, which decides how the last line is read.
  int read_version() {
    whole_ = text_;
    if (!text_.ends_with('\n')) fail(name_, "the last line is cut short, want a line end after the checksum");
    const auto first = line();
    const int version = first == std::string(kFormat) + "1" ? 1 : first == std::string(kFormat) + "2" ? 2 : 0;
    if (version == 0) {
      fail(name_, "the first line is " + shown(first) + ", want 'lockstep-snapshot 2' or 'lockstep-snapshot 1'",
           "either it is damaged, or it was written by a newer Lockstep: use the version that wrote it");
    }
    if (version == 1) return version;
    const auto checksum = line();
    if (checksum == "checksum crc32") {
      manifest_.checksum = ChecksumKind::kCrc32;
    } else if (checksum != "checksum xxh3") {
      fail(where(), "found " + shown(checksum) + ", want 'checksum xxh3' or 'checksum crc32'");
    }
    return version;
  }

  /// Checks the checksum in the last line, and removes this line from the text.
  void check_seal() {
    const auto kind = manifest_.checksum;
    const auto before = whole_.substr(0, whole_.size() - 1).rfind('\n');
    const std::size_t at = before == std::string_view::npos ? 0 : before + 1;
    const auto last = whole_.substr(at, whole_.size() - 1 - at);
    const auto found = parsed_sum(kind, last);
    if (!found) fail(name_, "the last line is " + shown(last) + ", want a checksum of " + wanted_digits(kind));
    const auto wanted = sum_of(kind, whole_.substr(0, at));
    if (*found != wanted) {
      fail(name_, "the lines have the checksum " + checksum_text(kind, wanted) + ", want " +
                      checksum_text(kind, *found) + " as the last line says");
    }
    // If there is one line only, it is also the last, and is removed already.
    text_.remove_suffix(std::min(text_.size(), last.size() + 1));
  }

  void read_identity() {
    const auto run = line();
    if (!run.starts_with("run ") || !is_run_id(run.substr(4))) {
      fail(where(), "found " + shown(run) + ", want 'run ' and 32 hexadecimal digits");
    }
    manifest_.run = run.substr(4);
    const auto step = line();
    const auto digits = step.substr(std::min<std::size_t>(step.size(), 5));
    manifest_.step = parsed_int<std::int64_t>(digits);
    const bool is_step = step.starts_with("step ") && manifest_.step && *manifest_.step >= 0;
    if (!is_step || std::to_string(*manifest_.step) != digits) {
      fail(where(), "found " + shown(step) + ", want 'step ' and a whole number");
    }
  }

  void read_file() {
    const auto line = this->line();
    const auto kind = manifest_.checksum;
    const auto bytes_at = digits_of(kind) + 2;
    const auto gap = line.find("  ", std::min(bytes_at, line.size()));
    if (gap == std::string_view::npos || line.substr(digits_of(kind), 2) != "  ") {
      fail(where(), "found " + shown(line) + ", want '<checksum>  <bytes>  <name>'");
    }
    const auto sum = parsed_sum(kind, line.substr(0, digits_of(kind)));
    const auto digits = line.substr(bytes_at, gap - bytes_at);
    const auto bytes = parsed_int<std::uint64_t>(digits);
    const auto file = line.substr(gap + 2);
    if (!sum) {
      fail(where(), "the checksum is " + shown(line.substr(0, digits_of(kind))) + ", want " + wanted_digits(kind));
    }
    if (!bytes || std::to_string(*bytes) != digits) {
      fail(where(), "the size is " + shown(digits) + ", want a whole number");
    }
    if (!is_manifest_file_name(file)) {
      fail(where(), "the file's name is " + shown(file) + ", want one directly within the snapshot");
    }
    if (std::ranges::find(manifest_.entries, file, &ManifestEntry::file) != manifest_.entries.end()) {
      fail(where(), shown(file) + " is listed twice, want each file once");
    }
    manifest_.entries.push_back({.file = std::string(file), .bytes = *bytes, .checksum = *sum});
  }

  std::string_view whole_;
  std::string_view text_;
  const std::string& name_;
  int number_ = 0;
  Manifest manifest_;
};

}  // namespace

std::string checksum_text(ChecksumKind kind, std::uint64_t checksum) {
  return hex64(checksum).substr(16 - digits_of(kind));
}

bool is_manifest_file_name(std::string_view file) {
  return !file.empty() && file != "." && file != ".." && file != kManifestName &&
         std::ranges::none_of(file,
                              [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_run_id(std::string_view text) { return text.size() == kRunDigits && is_hex(text); }

std::string manifest_text(const Manifest& manifest) {
  const auto kind = manifest.checksum;
  std::string text(kFormat);
  if (manifest.step) {
    LOCKSTEP_ASSERT(is_run_id(manifest.run));
    text += "2\nchecksum " + std::string(name_of(kind)) + "\nrun " + manifest.run + "\nstep " +
            std::to_string(*manifest.step) + "\n";
  } else {
    text += "1\n";
  }
  for (const auto& [file, bytes, checksum] : manifest.entries) {
    LOCKSTEP_ASSERT(is_manifest_file_name(file));
    text += checksum_text(kind, checksum) + "  " + std::to_string(bytes) + "  " + file + "\n";
  }
  return text + checksum_text(kind, sum_of(kind, text)) + "\n";
}

Manifest parsed_manifest(std::string_view text, const std::string& name) { return ManifestReader(text, name).read(); }

}  // namespace lockstep
