// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/space.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/files.h"
#include "lockstep/cluster/profile/account_budget.h"
#include "lockstep/observe/wall_clock.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLogs = std::uint64_t{1} << 30U;
constexpr std::uint64_t kNodeLocal = std::uint64_t{1} << 30U;
constexpr std::uint64_t kFiles = 1000;
constexpr std::uint64_t kSnapshots = 2;  // A new one is whole before an old one goes.

/// Returns the size of the run's newest snapshot. Nothing if there is none.
std::optional<std::uint64_t> snapshot_bytes(const DoctorContext& of) {
  if (of.run.snapshot_bytes) return of.run.snapshot_bytes;
  const auto folder = of.at_root(of.run.run_dir) / "snapshots";
  std::string newest;
  for (const auto& name : names_in(folder)) {
    if (name.starts_with("step-")) newest = name;
  }
  if (newest.empty()) return std::nullopt;
  std::uint64_t bytes = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder / newest, none)) bytes += entry.file_size(none);
  return bytes;
}

/// Returns the number of bytes that should be free, so that the run can write its snapshots.
std::uint64_t wanted_bytes(const DoctorContext& of) { return kSnapshots * snapshot_bytes(of).value_or(0) + kLogs; }

std::string why(const DoctorContext& of) {
  const auto bytes = snapshot_bytes(of);
  return bytes ? std::to_string(kSnapshots) + " snapshots of " + human_bytes(*bytes) + " and logs" : "logs";
}

/// The numbers in the output of `lfs quota -q` or `quota -w`: used and limits, in KiB. A limit of 0 is none.
struct Quota {
  std::uint64_t used = 0;
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
  std::uint64_t files = 0;
  std::uint64_t files_hard = 0;
};

/// Parses the numbers after the path in "PATH KBYTES QUOTA LIMIT GRACE FILES QUOTA LIMIT GRACE", on the path's line or
/// on the next. Source: lfs-quota(1), quota(1). A star marks a number over its limit.
std::optional<Quota> parsed_quota(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::vector<std::optional<std::uint64_t>> numbers;
  for (auto word : split(text, ' ')) {
    std::erase(word, '*');
    if (!trimmed(word).empty()) numbers.push_back(parsed_int<std::uint64_t>(trimmed(word)));
  }
  for (std::size_t at = 0; at + 6 < numbers.size(); ++at) {
    const auto* row = &numbers[at];
    if (row[0] && row[1] && row[2] && row[4] && row[5] && row[6]) {
      return Quota{*row[0], *row[1], *row[2], *row[4], *row[6]};
    }
  }
  return std::nullopt;
}

/// Runs a command that asks a file server, with a time limit, so that a hanging server cannot block other checks.
/// Returns nothing if no answer comes.
std::optional<std::string> answer_of(const DoctorContext& of, std::vector<std::string> command) {
  command.insert(command.begin(), {"timeout", "5"});
  const auto answer = of.system.run(command);
  return answer.exit_code == 0 ? std::optional(answer.output) : std::nullopt;
}

/// Returns the project id of a folder on Lustre, whose quota the folder uses. Nothing if it has none. The command
/// prints the id, then "P" if new files inherit the id or else "-", and the path. Source: lfs-project(1).
std::optional<std::string> lustre_project(const DoctorContext& of, const std::string& folder) {
  auto words = split(trimmed(answer_of(of, {"lfs", "project", "-d", folder}).value_or("")), ' ');
  std::erase(words, "");
  const bool has_one = words.size() >= 3 && (words[1] == "P" || words[1] == "-") && words[0] != "0";
  return has_one && parsed_int<std::uint64_t>(words[0]) ? std::optional(words[0]) : std::nullopt;
}

/// Runs one of GPFS's own tools, which are not in every user's PATH.
std::optional<std::string> gpfs_answer(const DoctorContext& of, std::vector<std::string> command) {
  if (auto found = answer_of(of, command)) return found;
  command.front().insert(0, "/usr/lpp/mmfs/bin/");
  return answer_of(of, command);
}

/// Returns the fileset of a folder on GPFS, whose quota the folder uses. On GPFS a project usually has a fileset.
/// Nothing if it is the root fileset. Source: mmlsattr(1), -L.
std::optional<std::string> gpfs_fileset(const DoctorContext& of, const std::string& folder) {
  constexpr std::string_view kName = "fileset name:";
  for (const auto& line : split(gpfs_answer(of, {"mmlsattr", "-L", folder}).value_or(""), '\n')) {
    if (!line.starts_with(kName)) continue;
    const std::string name(trimmed(std::string_view(line).substr(kName.size())));
    if (!name.empty() && name != "root") return name;
  }
  return std::nullopt;
}

/// Parses `mmlsquota -Y`, whose head names the columns of the rows after it. Blocks are in KiB. Source: mmlsquota(1).
std::optional<Quota> parsed_gpfs_quota(const std::string& text) {
  std::vector<std::string> head;
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(trimmed(line), ':');
    if (fields.size() < 3 || fields[0] != "mmlsquota") continue;
    if (fields[2] == "HEADER") {
      head = fields;
      continue;
    }
    const auto number = [&](const char* name) -> std::uint64_t {
      const auto at = static_cast<std::size_t>(std::ranges::find(head, name) - head.begin());
      return at < std::min(head.size(), fields.size()) ? parsed_int<std::uint64_t>(fields[at]).value_or(0) : 0;
    };
    if (head.empty()) continue;
    return Quota{number("blockUsage"), number("blockQuota"), number("blockLimit"), number("filesUsage"),
                 number("filesLimit")};
  }
  return std::nullopt;
}

/// A quota that limits the run folder.
struct NamedQuota {
  std::string name;  ///< "the quota" of the user, "the quota of project 462000001".
  Quota quota;
};

std::vector<NamedQuota> quotas_at(const DoctorContext& of, const std::string& kind, const std::string& folder) {
  std::vector<NamedQuota> quotas;
  const auto ask = [&](const std::string& name, const std::vector<std::string>& command) {
    const auto answer = answer_of(of, command);
    if (const auto quota = answer ? parsed_quota(*answer) : std::nullopt) quotas.push_back({name, *quota});
  };
  const auto user = of.env.get("USER").value_or("");
  if (kind == "gpfs") {
    auto device = device_of(of, of.run.run_dir);
    if (device.starts_with("/dev/")) device.erase(0, 5);
    const auto ask_gpfs = [&](const std::string& name, const std::string& flag, const std::string& who) {
      const auto answer = gpfs_answer(of, {"mmlsquota", "-Y", flag, who, device});
      if (const auto quota = answer ? parsed_gpfs_quota(*answer) : std::nullopt) quotas.push_back({name, *quota});
    };
    ask_gpfs("the quota", "-u", user);
    if (const auto fileset = gpfs_fileset(of, folder)) ask_gpfs("the quota of fileset " + *fileset, "-j", *fileset);
    return quotas;
  }
  if (kind != "lustre") {
    ask("the quota", {"quota", "-w", "-p", "-u", user, "-f", folder});
    return quotas;
  }
  ask("the quota", {"lfs", "quota", "-q", "-u", user, folder});
  if (const auto project = lustre_project(of, folder)) {
    ask("the quota of project " + *project, {"lfs", "quota", "-q", "-p", *project, folder});
  }
  return quotas;
}

void check_one_quota(const DoctorContext& of, const NamedQuota& named, Findings& findings) {
  const auto& quota = named.quota;
  const auto limit = quota.hard > 0 ? quota.hard : quota.soft;
  const auto left = limit > quota.used ? (limit - quota.used) * 1024 : 0;
  const auto wanted = wanted_bytes(of);
  if (limit > 0 && left < wanted) {
    findings.error("space-quota",
                   named.name + " leaves " + human_bytes(left) + " of " + human_bytes(limit * 1024) + " at '" +
                       of.run.run_dir.string() + "', want " + human_bytes(wanted) + " for " + why(of),
                   "remove old runs (`lockstep ls`), or ask for more quota");
  }
  if (quota.files_hard > 0 && quota.files + kFiles > quota.files_hard) {
    findings.error("space-quota-files",
                   named.name + " allows " + std::to_string(quota.files_hard) + " files at '" +
                       of.run.run_dir.string() + "', " + std::to_string(quota.files) + " are there, want room for " +
                       std::to_string(kFiles),
                   "remove files: data sets of many small ones are better packed, `lockstep data convert`");
  }
}

/// Returns the hours until the job's end. Nothing if the job's end is unknown.
std::optional<double> hours_left(const Environment& env) {
  for (const char* name : {"LOCKSTEP_JOB_END", "SLURM_JOB_END_TIME"}) {
    if (const auto end = parsed_double(env.get(name).value_or("")))
      return std::max(0.0, *end - unix_seconds(std::chrono::system_clock::now())) / 3600;
  }
  return std::nullopt;
}

NodeBilling billing(const DoctorContext& of) {
  const auto number = [&](const char* name) { return of.env.get_int(name).value_or(0); };
  const auto text = [&](const char* name) { return of.env.get(name).value_or(""); };
  const auto* queue = known_queue(of.profile, text("SLURM_JOB_QOS"), text("SLURM_JOB_PARTITION"));
  return node_billing(of.profile, number("SLURM_GPUS_ON_NODE"), number("SLURM_CPUS_ON_NODE"),
                      queue != nullptr && queue->whole_node);
}

}  // namespace

void check_run_space(const DoctorContext& of, Findings& findings) {
  if (of.run.run_dir.empty()) return;
  const auto folder = of.at_root(of.run.run_dir);
  const auto place = nearest_there(folder);
  if (!may(place, W_OK | X_OK)) {
    findings.error("space-not-writable", "the run folder '" + of.run.run_dir.string() + "' cannot be written",
                   "name another: --run-dir DIR, or LOCKSTEP_RUNS");
    return;
  }
  const auto room = room_at(folder);
  const auto wanted = wanted_bytes(of);
  if (room && room->free_bytes < wanted) {
    findings.error("space-low",
                   "the run folder '" + of.run.run_dir.string() + "' has " + human_bytes(room->free_bytes) +
                       " free, want " + human_bytes(wanted) + " for " + why(of),
                   "remove old runs (`lockstep ls`), keep fewer snapshots (snapshot.keep), or name another folder with "
                   "--run-dir");
  }
  if (room && room->total_files > 0 && room->free_files < kFiles) {
    findings.error("space-no-files",
                   "the file system of '" + of.run.run_dir.string() + "' can take " + std::to_string(room->free_files) +
                       " more files, want " + std::to_string(kFiles),
                   "remove files: data sets of many small ones are better packed, `lockstep data convert`");
  }
}

void check_node_space(const DoctorContext& of, Findings& findings) {
  const fs::path folder =
      of.env.get("TMPDIR").value_or(of.profile.storage.node_local.empty() ? "/tmp" : of.profile.storage.node_local);
  const auto room = room_at(of.at_root(folder));
  if (!room || room->free_bytes >= kNodeLocal) return;
  findings.warning("space-node-full",
                   "'" + folder.string() + "' has " + human_bytes(room->free_bytes) + " free, want " +
                       human_bytes(kNodeLocal) + " for caches and staged files" +
                       (of.profile.storage.node_local_is_memory ? ", which are the node's memory here" : ""),
                   "remove what earlier jobs left there, or set TMPDIR to another folder of the node");
}

void check_quota(const DoctorContext& of, Findings& findings) {
  if (of.run.run_dir.empty() || !of.system.run) return;
  const auto kind = file_system_of(of, of.run.run_dir);
  if (!is_shared(kind)) return;
  const auto folder = nearest_there(of.at_root(of.run.run_dir)).string();
  for (const auto& each : quotas_at(of, std::string(kind), folder)) check_one_quota(of, each, findings);
}

void check_budget(const DoctorContext& of, Findings& findings) {
  const auto account = of.env.get("SLURM_JOB_ACCOUNT").value_or("");
  const auto hours = hours_left(of.env);
  if (account.empty() || !hours || !of.system.run) return;
  const auto price = billing(of);
  const auto answer = of.system.run(budget_question(account));
  const auto budget = answer.exit_code == 0 ? parsed_budget(answer.output, account, price.unit) : std::nullopt;
  const double wanted = *hours * price.per_hour * of.env.get_int("SLURM_JOB_NUM_NODES").value_or(1);
  if (!budget || budget->left() >= wanted) return;
  findings.warning("budget-low",
                   "account " + account + " has " + fixed(std::max(0.0, budget->left()), 1) + " of its " +
                       fixed(budget->granted, 1) + " " + price.unit + " left, want " + fixed(wanted, 1) +
                       " for the rest of this job's time",
                   "ask for a shorter --time, or for more hours: Slurm may hold or end the account's jobs");
}

}  // namespace lockstep
