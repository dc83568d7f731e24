// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"
namespace lockstep {
namespace {

constexpr std::size_t kLongestLineBytes = 1 << 16;
constexpr int kWritesATurn = 32;

}  // namespace

FileDescriptor open_rank_log(const std::filesystem::path& folder, int rank) {
  if (folder.empty()) return {};
  const auto path = folder / (rank_name(rank) + ".log");
  FileDescriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log) throw Error(ErrorKind::kIo, system_fact("open", path, errno), "choose a folder that you may write to");
  return log;
}

void OutputSink::push(std::string_view text) {
  if (!is_closed_) waiting_.append(text);
}

void OutputSink::write_some() {
  // If poll() reports a pipe as writable, PIPE_BUF bytes can be written without blocking. O_NONBLOCK would change the
  // pipe for every process that shares it, the user's shell included.
  pollfd ready{fd_, POLLOUT, 0};
  for (int turn = 0; turn < kWritesATurn && is_waiting() && ::poll(&ready, 1, 0) == 1; ++turn) {
    const ssize_t put =
        ::write(fd_, waiting_.data() + written_, std::min<std::size_t>(waiting_.size() - written_, PIPE_BUF));
    if (put >= 0) {
      written_ += static_cast<std::size_t>(put);
    } else if (errno != EINTR && errno != EAGAIN) {
      is_closed_ = true;
      discard();
    }
  }
  if (written_ >= waiting_.size() / 2) {
    waiting_.erase(0, written_);
    written_ = 0;
  }
}

void OutputSink::discard() {
  waiting_.clear();
  written_ = 0;
}

void LastLines::push(std::string_view line) {
  if (lines_.size() == kLines) lines_.pop_front();
  lines_.emplace_back(line);
}

void OutputSource::read_some() {
  std::array<char, 1 << 16> buffer{};
  const ssize_t got = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got > 0) {
    take({buffer.data(), static_cast<std::size_t>(got)});
    return;
  }
  if (!partial_.empty()) pass_on(partial_ + "\n");
  pipe_.reset();
}

void OutputSource::read_rest() {
  std::array<char, 1 << 16> buffer{};
  ssize_t got = 0;
  while (is_open() && (got = ::read(pipe_.get(), buffer.data(), buffer.size())) > 0) {
    take({buffer.data(), static_cast<std::size_t>(got)});
  }
  if (is_open() && !partial_.empty()) pass_on(partial_ + "\n");
  pipe_.reset();
}

void OutputSource::take(std::string_view bytes) {
  const auto end = bytes.find_last_of("\n\r");
  if (end != std::string_view::npos) {
    pass_on(partial_.append(bytes.substr(0, end + 1)));
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
  partial_.append(bytes);
  if (partial_.size() > kLongestLineBytes) {
    pass_on(partial_);
    partial_.clear();
  }
}

void OutputSource::pass_on(std::string_view lines) {
  sink_->push(lines);
  if (log_) {
    // A failed write is ignored, since a log that cannot be written must not end the run.
    [[maybe_unused]] const auto put = ::write(log_.get(), lines.data(), lines.size());
  }
  while (!lines.empty()) {
    const auto end = lines.find_first_of("\n\r");
    last_->push(lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  }
}

}  // namespace lockstep
