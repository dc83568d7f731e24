// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// Writes a program's messages as lines to a file descriptor. One system call writes each line, so lines of several
/// ranks never mix. Progress and log go to standard error, data never does.
///
/// Threads: safe. Copies share the descriptor.
class Log {
 public:
  /// Each line begins with `prefix`, such as "[rank 3 n2] ". It may be empty.
  explicit Log(int fd = 2, std::string prefix = {}) : fd_(fd), prefix_(std::move(prefix)) {}

  void info(std::string_view text) const { write({}, text); }
  void warning(std::string_view text) const { write("warning: ", text); }
  void error(std::string_view text) const { write("error: ", text); }

 private:
  void write(std::string_view label, std::string_view text) const;

  int fd_;
  std::string prefix_;
};

/// Writes the exception that is being handled as an error, and returns the program's exit code. Any exception that is
/// neither an Error nor the file system's counts as a bug in Lockstep. Call it in the `catch (...)` of a `main()`.
int report_failure(const Log& log);

}  // namespace lockstep
