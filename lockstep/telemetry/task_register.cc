// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/task_register.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/telemetry/process_tree.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// glibc has a function for this system call only from 2.36 on.
#ifndef SYS_pidfd_open
constexpr long kPidfdOpen = 434;
#else
constexpr long kPidfdOpen = SYS_pidfd_open;
#endif

fs::path file_of(int local_rank, const fs::path& folder) { return folder / ("task-" + std::to_string(local_rank)); }

}  // namespace

RegisteredTask this_task(int rank, int local_rank) {
  const pid_t pid = ::getpid();
  return {.rank = rank, .local_rank = local_rank, .pid = pid, .started = start_of_process(pid).value_or(0)};
}

void enter_task(const RegisteredTask& task, const fs::path& folder) {
  write_whole(file_of(task.local_rank, folder),
              std::to_string(task.rank) + " " + std::to_string(task.pid) + " " + std::to_string(task.started) + "\n",
              /*durable=*/false);
}

std::optional<RegisteredTask> entered_task(int local_rank, const fs::path& folder) {
  const auto file = file_of(local_rank, folder);
  if (::access(file.c_str(), R_OK) != 0) return std::nullopt;
  const std::string text = text_of_file(file);
  const auto words = split(trimmed(text), ' ');
  if (words.size() != 3) return std::nullopt;
  const auto rank = parsed_int<int>(words[0]);
  const auto pid = parsed_int<pid_t>(words[1]);
  const auto started = parsed_int<std::uint64_t>(words[2]);
  if (!rank || !pid || !started) return std::nullopt;
  return RegisteredTask{.rank = *rank, .local_rank = local_rank, .pid = *pid, .started = *started};
}

WatchedTask::WatchedTask(const RegisteredTask& task)
    : task_(task), pidfd_(static_cast<int>(::syscall(kPidfdOpen, task.pid, 0))) {
  // Before the pidfd was opened, the process id may have been given to another process. So the start time is compared.
  has_ended_ = start_of_process(task.pid) != task.started;
}

bool WatchedTask::has_ended() {
  if (!has_ended_) has_ended_ = start_of_process(task_.pid) != task_.started;
  return has_ended_;
}

}  // namespace lockstep
