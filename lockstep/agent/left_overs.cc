// SPDX-License-Identifier: Apache-2.0
#include "lockstep/agent/left_overs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/telemetry/process_tree.h"
#include "lockstep/telemetry/task_register.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTasks = 1024;  // Of one node.

FileDescriptor opened_folder(const fs::path& path, int flags) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | flags));
}

/// A folder in use may have no mark, on a file system without locks or if an older version made it. So its tasks are
/// checked too.
bool has_living_task(const fs::path& folder) {
  for (int local_rank = 0; local_rank < kMostTasks; ++local_rank) {
    const auto task = entered_task(local_rank, folder);
    if (!task) return false;
    if (start_of_process(task->pid) == task->started) return true;
  }
  return true;
}

bool is_left_over(const fs::path& path, std::chrono::seconds age) {
  const auto folder = opened_folder(path, O_CLOEXEC);
  struct stat about {};
  if (!folder || ::fstat(folder.get(), &about) != 0) return false;
  if (about.st_uid != ::geteuid() || (about.st_mode & 077U) != 0) return false;
  if (std::time(nullptr) - about.st_mtime < age.count()) return false;
  return ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 && !has_living_task(path);
}

/// `lockstep-USER-` of `lockstep-USER-JOB-NODE`.
std::string prefix_of(const fs::path& node_folder) {
  const auto name = node_folder.filename().string();
  const auto user = name.find('-');
  const auto job = user == std::string::npos ? user : name.find('-', user + 1);
  return job == std::string::npos ? std::string() : name.substr(0, job + 1);
}

}  // namespace

FileDescriptor mark_in_use(const fs::path& node_folder) {
  auto folder = opened_folder(node_folder, 0);  // The program that this process becomes keeps it.
  if (folder && ::flock(folder.get(), LOCK_SH | LOCK_NB) != 0) folder.reset();
  return folder;
}

int remove_left_overs(const fs::path& node_folder, std::chrono::seconds age, std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  const auto prefix = prefix_of(node_folder);
  std::error_code none;
  std::vector<fs::path> found;
  for (fs::directory_iterator each(node_folder.parent_path(), none), end; !none && each != end; each.increment(none)) {
    const auto name = each->path().filename().string();
    if (!prefix.empty() && name.starts_with(prefix) && each->path() != node_folder) found.push_back(each->path());
  }
  int removed = 0;
  for (const auto& path : found) {
    if (Clock::now() >= until) break;
    if (!is_left_over(path, age)) continue;
    fs::remove_all(path, none);
    ++removed;
  }
  return removed;
}

}  // namespace lockstep
