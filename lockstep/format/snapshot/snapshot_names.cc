// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/snapshot_names.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kStep = "step-";
constexpr std::string_view kOld = ".old";
constexpr std::size_t kStepDigits = 10;
// A temporary folder of another host is removed after this time without a change. A live writer never pauses that long,
// even on a file system under heavy load.
constexpr std::chrono::hours kForeignAge{1};

/// Returns the host name that temporary names contain.
std::string owning_host() {
  auto name = host_name();
  return name.empty() ? "unknown" : name;
}

struct Owner {
  std::string_view host;
  pid_t pid = 0;
};

/// Parses ".tmp-HOST-PID.PURPOSE". The host's name may contain '-' and '.', but the purpose no '.'.
std::optional<Owner> owner_of(std::string_view name) {
  if (!name.starts_with(kTemporary)) return std::nullopt;
  name.remove_prefix(kTemporary.size());
  name = name.substr(0, name.rfind('.'));
  const auto dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto pid = parsed_int<pid_t>(name.substr(dash + 1));
  if (!pid || *pid <= 0) return std::nullopt;
  return Owner{name.substr(0, dash), *pid};
}

std::optional<std::time_t> changed_at(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_mtim.tv_sec;
}

bool is_idle(const std::filesystem::path& path) {
  std::time_t newest = changed_at(path).value_or(0);
  for (const auto& name : names_in(path)) newest = std::max(newest, changed_at(path / name).value_or(0));
  return std::time(nullptr) - newest > std::chrono::seconds(kForeignAge).count();
}

bool is_stale(const std::filesystem::path& path) {
  const std::string name = path.filename();
  const auto owner = owner_of(name);
  if (!owner) return false;
  if (owner->host != owning_host()) return is_idle(path);
  // A folder has one writer at a time. So a temporary name with this process's own id was left by an earlier process
  // with the same id, as happens in containers.
  return owner->pid == ::getpid() || (::kill(owner->pid, 0) != 0 && errno == ESRCH);
}

}  // namespace

std::string snapshot_name(std::int64_t step) {
  const std::string digits = zero_padded(step, kStepDigits);
  LOCKSTEP_ASSERT(digits.size() == kStepDigits);
  return std::string(kStep) + digits;
}

std::optional<SnapshotName> parsed_snapshot_name(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  name.remove_prefix(kStep.size());
  const bool is_old = name.ends_with(kOld);
  if (is_old) name.remove_suffix(kOld.size());
  const bool is_number =
      name.size() == kStepDigits && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) return std::nullopt;
  return SnapshotName{.step = *parsed_int<std::int64_t>(name), .is_old = is_old};
}

std::string temporary_name(std::string_view purpose) {
  return std::string(kTemporary) + owning_host() + "-" + std::to_string(::getpid()) + "." + std::string(purpose);
}

void remove_stale_temporaries(const std::filesystem::path& snapshots) {
  std::error_code ignored;
  for (const auto& name : names_in(snapshots)) {
    if (is_stale(snapshots / name)) std::filesystem::remove_all(snapshots / name, ignored);
  }
}

void remove_all_temporaries(const std::filesystem::path& snapshots) {
  std::error_code ignored;
  for (const auto& name : names_in(snapshots)) {
    if (owner_of(name)) std::filesystem::remove_all(snapshots / name, ignored);
  }
}

void remove_snapshot(const std::filesystem::path& snapshot) {
  const std::filesystem::path aside = snapshot.parent_path() / temporary_name("removed-" + snapshot.stem().string());
  std::error_code ignored;
  // A snapshot that was replaced has a temporary name already, so it is not renamed. A second prefix would make a name
  // that nobody can parse.
  if (snapshot.filename().string().starts_with(kTemporary)) {
    std::filesystem::remove_all(snapshot, ignored);
    return;
  }
  std::filesystem::remove_all(aside, ignored);
  if (::rename(snapshot.c_str(), aside.c_str()) != 0) throw io_error("remove", snapshot, errno);
  std::filesystem::remove_all(aside, ignored);
}

}  // namespace lockstep
