// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/flag/sbatch_flag.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::string_view kNumbers = "other numbers of the job follow from it";
constexpr std::string_view kLog = "follow, report and monitor look for the log in the run folder, at logs/job.log";

/// A flag of sbatch, and the option of `lockstep submit` that does the same.
struct OwnFlag {
  std::string_view name;
  char letter;  ///< Of its short form. 0 if it has none.
  std::string_view reason;
  std::string_view hint;
};

constexpr auto kOwnFlags = std::to_array<OwnFlag>({
    {"--account", 'A', kNumbers, "give it as --account"},
    {"--partition", 'p', kNumbers, "give it as --partition"},
    {"--qos", 'q', kNumbers, "give it as --qos"},
    {"--time", 't', kNumbers, "give it as --time"},
    {"--nodes", 'N', kNumbers, "give it as --nodes"},
    {"--ntasks", 'n', kNumbers, "give it as --tasks-per-node"},
    {"--ntasks-per-node", 0, kNumbers, "give it as --tasks-per-node"},
    {"--ntasks-per-gpu", 0, kNumbers, "give it as --tasks-per-node"},
    {"--gpus", 'G', kNumbers, "give it as --devices, which counts those of each node"},
    {"--gpus-per-node", 0, kNumbers, "give it as --devices"},
    {"--gpus-per-task", 0, kNumbers, "give it as --devices, which counts those of each node, and --tasks-per-node"},
    {"--gpus-per-socket", 0, kNumbers, "give it as --devices, which counts those of each node"},
    {"--gres=gpu", 0, kNumbers, "give it as --devices; the profile says how devices are asked for"},
    {"--cpus-per-task", 'c', kNumbers, "give it as --cores-per-task"},
    {"--cpus-per-gpu", 0, kNumbers, "give it as --cores-per-task"},
    {"--job-name", 'J', "the run folder is named by it too", "give it as --name"},
    {"--output", 'o', kLog, "--run-dir DIR chooses the run folder"},
    {"--error", 'e', kLog, "--run-dir DIR chooses the run folder"},
    {"--array", 'a', "all its jobs would write into one run folder",
     "--sweep NAME=v,w submits a job for each value, in folders of their own"},
    {"--signal", 0, "job.sh waits for the ranks that it has told, and then goes on", "give it as --signal NAME@S"},
    {"--requeue", 0, "job.sh puts the job back by itself", "give it as --requeue yes"},
    {"--no-requeue", 0, "job.sh puts the job back by itself", "give it as --requeue no"},
    {"--clusters", 'M', "squeue, sacct and scancel would ask another cluster about this job",
     "export SLURM_CLUSTERS=X, which all of Slurm's tools follow, and submit"},
    {"--chdir", 'D', "a job starts in the folder that it is submitted from", "cd there, and submit"},
    {"--wrap", 0, "the script is written by submit", "write the program after two dashes: submit --nodes N -- PROGRAM"},
});

const OwnFlag* own_short_flag(std::string_view flag) {
  if (flag.size() < 2 || flag[0] != '-' || flag[1] == '-') return nullptr;
  const auto found = std::ranges::find(kOwnFlags, flag[1], &OwnFlag::letter);
  return found == kOwnFlags.end() ? nullptr : &*found;
}

/// getopt_long() also accepts the beginning of a name.
const OwnFlag* own_long_flag(std::string flag) {
  std::ranges::replace(flag, ' ', '=');
  const std::string name = flag.substr(0, flag.find('='));
  if (name == "--gres") {
    const bool is_device = flag.find("gpu", name.size()) != std::string::npos;
    return is_device ? &*std::ranges::find(kOwnFlags, "--gres=gpu", &OwnFlag::name) : nullptr;
  }
  constexpr std::size_t kShortest = std::string_view("--abc").size();
  const OwnFlag* begun = nullptr;
  for (const auto& own : kOwnFlags) {
    if (own.name == name) return &own;
    if (name.size() >= kShortest && own.name.starts_with(name)) begun = &own;
  }
  return begun;
}

}  // namespace

void check_sbatch_flag(const std::string& flag) {
  if (!flag.starts_with('-')) {
    throw Error(ErrorKind::kUsage, "'" + flag + "' is not a flag of sbatch, want one that begins with a dash",
                "for example --sbatch=--exclusive");
  }
  const auto* own = flag.starts_with("--") ? own_long_flag(flag) : own_short_flag(flag);
  if (own == nullptr) return;
  throw Error(ErrorKind::kUsage, "--sbatch=" + flag + ": " + std::string(own->reason), std::string(own->hint));
}

void check_no_dependency(const std::vector<std::string>& flags) {
  for (const auto& flag : flags) {
    if (!flag.starts_with("-d") && !flag.starts_with("--dep")) continue;
    throw Error(ErrorKind::kUsage, "--at-most and --sbatch=" + flag + " both say what a job waits for, want one",
                "leave one of them out");
  }
}

}  // namespace lockstep
