// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace lockstep {

/// What is read of a file that is long already when it is first looked at; what lies between is left out.
struct FirstLook {
  std::int64_t head_bytes = std::int64_t{64} << 10;
  std::int64_t tail_bytes = std::int64_t{32} << 20;
};

/// The lines of a file that another process appends to, each once: a look costs what has come, not what is there.
class GrowingFile {
 public:
  explicit GrowingFile(std::filesystem::path path, FirstLook first = {});

  const std::filesystem::path& path() const { return path_; }
  /// Hands on each whole line that has come since the last call, without its end, in order. Nothing where there is no
  /// such file. One that has become shorter was written anew, and is read from its start.
  ///
  /// Throws: Error(kIo) where it cannot be read.
  void read(const std::function<void(std::string_view)>& take);

 private:
  void read_part(int fd, std::int64_t end, const std::function<void(std::string_view)>& take);

  std::filesystem::path path_;
  FirstLook first_;
  std::int64_t at_ = 0;        // Up to here all has been handed on.
  bool is_in_a_line_ = false;  // The line at `at_` began in what was left out.
};

}  // namespace lockstep
