// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/lost_task.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/telemetry/process_tree.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// srun gets the last lines of the tasks from the nodes, and writes them into the job's log, within this time.
constexpr std::chrono::milliseconds kSrunWritesWithin{200};

constexpr int kKilled = 128 + SIGKILL;

/// The variables that only the tasks of one step and their srun have with the same values: the script of the job sets
/// them for each start of its step.
constexpr const char* kStepVariables[] = {"SLURM_JOB_ID", "LOCKSTEP_RUN_DIR", "LOCKSTEP_RESTARTS"};

fs::path folder_of(pid_t pid, const fs::path& root) { return root / "proc" / std::to_string(pid); }

bool is_srun(const fs::path& process) { return trimmed(text_or_nothing(process / "comm")) == "srun"; }

bool has_variables(const fs::path& process, const std::vector<std::string>& wanted) {
  const auto all = split(text_or_nothing(process / "environ"), '\0');
  return std::ranges::all_of(wanted, [&](const auto& each) { return std::ranges::count(all, each) > 0; });
}

std::string words_of(const std::vector<LostTask>& lost) {
  std::vector<std::string> all;
  all.reserve(lost.size());
  for (const auto& each : lost) all.push_back("rank " + std::to_string(each.rank) + " on " + each.node);
  return joined(all, ", ");
}

}  // namespace

// srun has a child process of the same name, which ends the step if srun itself is killed.
std::optional<pid_t> srun_of_step(const Environment& env, const fs::path& root) {
  std::vector<std::string> wanted;
  for (const auto* name : kStepVariables) {
    const auto value = env.get(name);
    if (!value) return std::nullopt;
    wanted.push_back(std::string(name) + "=" + *value);
  }
  for (const auto& name : names_in(root / "proc")) {
    const auto pid = parsed_int<pid_t>(name);
    if (!pid || !is_srun(folder_of(*pid, root)) || !has_variables(folder_of(*pid, root), wanted)) continue;
    const auto parent = parent_of_process(*pid, root);
    if (parent && !is_srun(folder_of(*parent, root))) return pid;
  }
  return std::nullopt;
}

void end_step_without(const std::vector<LostTask>& lost, const RankExit& own, const fs::path& run_dir,
                      const Environment& env, const Log& log) {
  if (lost.empty()) return;
  for (const auto& each : lost) {
    const RankExit exit{.job = own.job,
                        .start = own.start,
                        .restart = own.restart,
                        .rank = each.rank,
                        .node = each.node,
                        .code = kKilled,
                        .signal = SIGKILL,
                        .is_lost = true,
                        .time = own.time};
    try {
      append_exit(run_dir, exit);
    } catch (const Error& error) {
      log.warning(std::string("cannot record that a rank was lost: ") + error.what());
    }
  }
  const auto srun = srun_of_step(env);
  log.error(words_of(lost) + (lost.size() == 1 ? " was" : " were") + " lost, with the parent process" +
            (srun ? "; the step is ended, since srun would wait for it" : ""));
  if (!srun) return;
  std::this_thread::sleep_for(kSrunWritesWithin);
  ::kill(*srun, SIGKILL);
}

}  // namespace lockstep
