// SPDX-License-Identifier: Apache-2.0
// A grandchild of the parent of ranks does the inspection. So the parent waits for no process that could hang, and does
// not mistake the end of this process for the end of a rank. The grandchild writes one line of JSON after each rank. If
// the time is over, only the remaining ranks are missing.
#include "lockstep/launch/inspect/inspection.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

#include "lockstep/base/json_text.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/inspect/nccl_status.h"
#include "lockstep/launch/inspect/process_facts.h"

namespace lockstep {
namespace {

using nlohmann::json;

void write_line(int fd, const json& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  // Names of files may not be UTF-8.
  const auto text = json_text(line) + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto put = ::write(fd, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
}

void look_at_nccl(const SeenRank& rank, int fd) {
  constexpr std::chrono::milliseconds kPatience{2000};
  const auto address = ras_address(variables_of_process(rank.pid));
  const auto status = address ? read_nccl_status(*address, kPatience) : std::nullopt;
  if (!status) return;
  const auto complaints = nccl_complaints(*status);
  if (!complaints.empty()) write_line(fd, {{"nccl", complaints}});
}

void look(const std::vector<SeenRank>& ranks, const Environment& env, int fd) {
  constexpr std::size_t kThreads = 16;
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(kThreads, ranks.size()); ++i) {
    threads.emplace_back([&] {
      for (auto at = next++; at < ranks.size(); at = next++) {
        try {
          write_line(fd, {{std::to_string(ranks[at].rank), view_of(ranks[at], env)}});
        } catch (const std::exception& error) {
          write_line(fd, {{std::to_string(ranks[at].rank), {{"stack_note", error.what()}}}});
        }
      }
    });
  }
  if (!ranks.empty()) look_at_nccl(ranks.front(), fd);
}

[[noreturn]] void become_looker(const std::vector<SeenRank>& ranks, const Environment& env, int fd) {
  if (::fork() != 0) ::_exit(0);
  ::setpgid(0, 0);
  // The parent's sockets and pipes must close when the parent ends, so this process closes its copies. The ranks' pages
  // stay, since they are mapped.
  constexpr int kWriter = 3;
  if (fd != kWriter) ::dup2(fd, kWriter);
  ::syscall(SYS_close_range, kWriter + 1, ~0U, 0);
  ::fcntl(kWriter, F_SETFD, FD_CLOEXEC);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGCHLD}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::alarm(static_cast<unsigned>(Inspection::kLimit.count()));
  look(ranks, env, kWriter);
  ::_exit(0);
}

}  // namespace

Inspection::Inspection(const std::vector<SeenRank>& ranks, const Environment& env) : until_(Clock::now() + kLimit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pipe_ = FileDescriptor(ends[0]);
  const FileDescriptor writer(ends[1]);
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  const pid_t child = ::fork();
  if (child == 0) become_looker(ranks, env, writer.get());
  if (child > 0) {
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void Inspection::read_some() {
  std::array<char, 1 << 14> buffer{};
  while (pipe_) {
    const auto got = ::read(pipe_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return pipe_.reset();
    text_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

std::optional<json> Inspection::result() {
  read_some();
  if (pipe_ && Clock::now() < until_) return std::nullopt;
  pipe_.reset();
  auto all = json::object();
  for (const auto& line : split(text_, '\n')) {
    const auto object = json::parse(line, nullptr, false);
    if (object.is_object()) all.update(object);
  }
  return all;
}

}  // namespace lockstep
