// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/process_facts.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/watch/rank_watch.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct KnownCall {
  long number;
  std::string_view name;
  bool has_file;  ///< True if the call's first argument is a descriptor.
};

// The system calls in which a waiting training is usually found. Not every machine has all of them.
constexpr KnownCall kCalls[] = {
    {SYS_read, "read", true},
    {SYS_write, "write", true},
    {SYS_pread64, "pread", true},
    {SYS_pwrite64, "pwrite", true},
    {SYS_readv, "readv", true},
    {SYS_writev, "writev", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_flock, "flock", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_getdents64, "getdents", true},
    {SYS_recvfrom, "recvfrom", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_sendto, "sendto", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_connect, "connect", true},
    {SYS_accept4, "accept", true},
    {SYS_epoll_pwait, "epoll_wait", false},
    {SYS_ppoll, "poll", false},
    {SYS_pselect6, "select", false},
    {SYS_futex, "futex", false},
    {SYS_nanosleep, "nanosleep", false},
    {SYS_clock_nanosleep, "nanosleep", false},
    {SYS_wait4, "wait", false},
    {SYS_waitid, "wait", false},
    {SYS_openat, "open", false},
    {SYS_statx, "stat", false},
    {SYS_rt_sigsuspend, "sigsuspend", false},
#ifdef SYS_poll
    {SYS_poll, "poll", false},
    {SYS_select, "select", false},
    {SYS_epoll_wait, "epoll_wait", false},
    {SYS_pause, "pause", false},
    {SYS_open, "open", false},
    {SYS_stat, "stat", false},
#endif
};

// "0 0x3 0x7ffe… …": the number and its arguments. "running", or "-1 …" outside of any call.
void read_call(const fs::path& thread, pid_t pid, ProcessFacts& facts) {
  const auto words = split(trimmed(text_or_nothing(thread / "syscall")), ' ');
  const auto number = parsed_int<long>(words.front());
  if (!number || *number < 0) return;
  const auto* const known = std::ranges::find(kCalls, *number, &KnownCall::number);
  if (known == std::end(kCalls)) {
    facts.system_call = "call " + words.front();
    return;
  }
  facts.system_call = known->name;
  if (!known->has_file || words.size() < 2 || !words[1].starts_with("0x")) return;
  unsigned descriptor = 0;
  const std::string_view digits = std::string_view(words[1]).substr(2);
  std::from_chars(digits.data(), digits.data() + digits.size(), descriptor, 16);
  std::error_code error;
  const auto target = fs::read_symlink("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor), error);
  if (!error) facts.file = target.string();
}

void read_stat(pid_t pid, ProcessFacts& facts) {
  const auto text = text_or_nothing("/proc/" + std::to_string(pid) + "/stat");
  const auto end = text.rfind(')');
  if (end == std::string::npos || end + 2 >= text.size()) return;
  // The fields from the state on, which is field 3 in proc(5).
  const auto words = split(std::string_view(text).substr(end + 2), ' ');
  const auto field = [&](std::size_t number) {
    return number - 3 < words.size() ? parsed_int<std::int64_t>(trimmed(words[number - 3])).value_or(-1) : -1;
  };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (field(14) >= 0 && field(15) >= 0) facts.cpu_s = static_cast<double>(field(14) + field(15)) / ticks;
  facts.threads = static_cast<int>(field(20));
  if (field(24) >= 0) facts.resident_bytes = field(24) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

std::vector<std::string> words_of_process(pid_t pid) {
  auto words = split(text_or_nothing("/proc/" + std::to_string(pid) + "/cmdline"), '\0');
  if (!words.empty() && words.back().empty()) words.pop_back();
  return words;
}

ProcessFacts read_process_facts(pid_t pid, pid_t thread) {
  constexpr std::size_t kWords = 4;
  constexpr std::size_t kFrames = 8;
  ProcessFacts facts{.pid = pid, .state = process_state(pid)};
  if (facts.state == '?') return facts;
  auto words = words_of_process(pid);
  words.resize(std::min(words.size(), kWords));
  facts.command = joined(words, " ");
  const auto task = fs::path("/proc") / std::to_string(pid) / "task" / std::to_string(thread > 0 ? thread : pid);
  facts.wait_channel = trimmed(text_or_nothing(task / "wchan"));
  if (facts.wait_channel == "0") facts.wait_channel.clear();
  for (const auto& line : split(text_or_nothing(task / "stack"), '\n')) {
    // A line is such as "[<0>] pipe_read+0x2e6/0x390".
    const auto name = line.find("] ");
    if (name == std::string::npos || facts.kernel_stack.size() == kFrames) continue;
    facts.kernel_stack.push_back(line.substr(name + 2, line.find('+', name) - name - 2));
  }
  read_call(task, pid, facts);
  read_stat(pid, facts);
  return facts;
}

std::string describe_wait(const ProcessFacts& facts) {
  std::string text;
  if (!facts.system_call.empty()) text = "in " + facts.system_call;
  if (!facts.file.empty()) text += " of " + facts.file;
  const auto kernel = !facts.wait_channel.empty()  ? facts.wait_channel
                      : facts.kernel_stack.empty() ? std::string()
                                                   : facts.kernel_stack.front();
  if (kernel.empty()) return text;
  return text + (text.empty() ? "" : " ") + "(kernel: " + kernel + ")";
}

std::vector<pid_t> processes_below(pid_t pid, std::size_t most) {
  std::vector<pid_t> found;
  std::vector<pid_t> parents = {pid};
  while (!parents.empty() && found.size() < most) {
    std::vector<pid_t> next;
    for (const auto parent : parents) {
      const auto tasks = "/proc/" + std::to_string(parent) + "/task";
      for (const auto& task : names_in(tasks)) {
        for (const auto& word : split(text_or_nothing(tasks + "/" + task + "/children"), ' ')) {
          const auto child = parsed_int<pid_t>(trimmed(word));
          if (child && found.size() < most) {
            found.push_back(*child);
            next.push_back(*child);
          }
        }
      }
    }
    parents = std::move(next);
  }
  return found;
}

Environment variables_of_process(pid_t pid) {
  Environment::Map all;
  for (const auto& entry : split(text_or_nothing("/proc/" + std::to_string(pid) + "/environ"), '\0')) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) all[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return Environment(std::move(all));
}

}  // namespace lockstep
