// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/file.h"

namespace lockstep {

/// Opens rank-NNNN.log in `folder`, for appending. Returns no file if `folder` is empty.
/// Throws: Error(kIo) if the file cannot be opened.
FileDescriptor open_rank_log(const std::filesystem::path& folder, int rank);

/// One of this process's own streams, written by many ranks. It never blocks. Output that the stream does not accept at
/// once waits here.
class OutputSink {
 public:
  explicit OutputSink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  bool is_waiting() const { return written_ < waiting_.size(); }
  /// False while so much text is waiting that the ranks' pipes must not be read.
  bool has_room() const { return waiting_.size() - written_ < kRoomBytes; }

  void push(std::string_view text);
  /// Writes text that is waiting. Call it when poll() says that the stream accepts more.
  void write_some();
  void discard();

 private:
  static constexpr std::size_t kRoomBytes = 1 << 18;

  int fd_;
  bool is_closed_ = false;  // The reader went away. The ranks' work is worth more than their output.
  std::string waiting_;
  std::size_t written_ = 0;  // The part of waiting_ that the stream has taken.
};

/// The last lines that one rank wrote, on either of its streams.
class LastLines {
 public:
  void push(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  static constexpr std::size_t kLines = 20;
  std::deque<std::string> lines_;
};

/// The reading end of a pipe from one rank. Whole lines are passed on to the sink. A line ends with \n, or with \r as
/// in a progress bar.
class OutputSource {
 public:
  /// `sink` and `last` must outlive the source. If `log` is open, it gets a copy of the output.
  OutputSource(FileDescriptor pipe, OutputSink& sink, LastLines& last, FileDescriptor log)
      : pipe_(std::move(pipe)), sink_(&sink), last_(&last), log_(std::move(log)) {}

  int fd() const { return pipe_.get(); }
  bool is_open() const { return static_cast<bool>(pipe_); }
  const OutputSink& sink() const { return *sink_; }

  /// Reads once, if there is data. At the end of the stream it closes the pipe.
  void read_some();
  /// Reads all data that is in the pipe, then closes it.
  void read_rest();

 private:
  void take(std::string_view bytes);
  void pass_on(std::string_view lines);

  FileDescriptor pipe_;
  OutputSink* sink_;
  LastLines* last_;
  FileDescriptor log_;
  std::string partial_;
};

}  // namespace lockstep
