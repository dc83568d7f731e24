// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace lockstep {

/// How much is read from the beginning and the end of a file that is long at the first read. The middle is skipped.
struct FirstLook {
  std::int64_t head_bytes = std::int64_t{64} << 10;
  std::int64_t tail_bytes = std::int64_t{32} << 20;
};

/// Reads each line of a file that another process appends to, once. The cost of a read depends on the number of new
/// bytes, not on the file's length.
class GrowingFile {
 public:
  explicit GrowingFile(std::filesystem::path path, FirstLook first = {});

  const std::filesystem::path& path() const { return path_; }
  /// Calls `take` with each complete line that was added since the last call, in order and without the line's end. Does
  /// nothing if there is no such file. A file that has become shorter was rewritten, and is read from its start.
  ///
  /// Throws: Error(kIo) if the file cannot be read.
  void read(const std::function<void(std::string_view)>& take);

 private:
  void read_part(int fd, std::int64_t end, const std::function<void(std::string_view)>& take);

  std::filesystem::path path_;
  FirstLook first_;
  std::int64_t at_ = 0;        // Up to here all has been handed on.
  bool is_in_a_line_ = false;  // The line at `at_` began in what was left out.
};

}  // namespace lockstep
