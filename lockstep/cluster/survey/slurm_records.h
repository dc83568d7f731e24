// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One partition or node, as `scontrol show` prints it, such as "NodeName=n1 Arch=x86_64 CoresPerSocket=4 …". A value
/// may hold spaces, as OS and Reason do.
class SlurmRecord {
 public:
  /// Adds the words of a line. If a key comes twice, the first value counts, since free text comes last.
  void add_line(std::string_view line);

  /// Returns the value of a key. Empty if there is none, or if it is "(null)" or "N/A".
  std::string text(std::string_view key) const;
  /// Returns the value as a whole number. Nothing if it is not a number, such as "UNLIMITED".
  std::optional<std::int64_t> number(std::string_view key) const;
  bool is(std::string_view key, std::string_view value) const { return text(key) == value; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

/// Parses the output of `scontrol show partition` or `scontrol show node` into records. A record may have several
/// lines. It begins with `first_key` at the start of a line.
std::vector<SlurmRecord> parsed_slurm_records(std::string_view text, std::string_view first_key);

/// A generic resource of a node, such as "gpu:a100:4(S:0-1)".
struct Gres {
  std::string name;  ///< "gpu"
  std::string type;  ///< "a100". Empty if it has none.
  std::int64_t count = 1;

  bool operator==(const Gres&) const = default;
};

/// Returns the entries of a node's Gres. Text in brackets, such as sockets and indices, is left out.
std::vector<Gres> parsed_gres(std::string_view text);

/// Parses a time limit such as "1-00:00:00". Returns nothing for "UNLIMITED", "NONE" and text that is not a time.
std::optional<std::chrono::seconds> parsed_slurm_time(std::string_view text);

/// Splits a list at its commas. Returns no parts for "", "ALL" and "(null)".
std::vector<std::string> named_in_list(std::string_view text);

}  // namespace lockstep
