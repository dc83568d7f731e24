// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/profile/profile.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// What `submit` was given besides settings: flags that no recipe can hold.
struct SubmitFlags {
  std::string recipe;                ///< The recipe's file; empty for a program.
  std::vector<std::string> program;  ///< What follows `--`.
  std::vector<std::string> sets;     ///< "a.b=v", as typed.
  std::string name;                  ///< For the queue and the run folder; by default the recipe's or the program's.
  bool has_stage = false;            ///< An environment is sent to the nodes.
  std::vector<std::string> sbatch;   ///< Each "--flag" or "--flag=value".
  std::optional<int> devices{};
  std::optional<int> tasks{};
  std::optional<int> cores_per_task{};
};

/// What the settings and the flags ask for, on the system of `profile`; its paths are left open, but for the working
/// folder's binds.
///
/// Throws: Error(kUsage) for a flag of sbatch that has an option of its own here; Error(kRecipe) for a path with a
/// variable that is not set.
JobRequest job_request(const Recipe& settings, const SubmitFlags& flags, const Profile& profile,
                       const Environment& env);

/// True if the program is a Python that is left open, and the job names no environment to find it in. An image is not
/// asked for.
bool needs_environment(const Recipe& settings, const SubmitFlags& flags, const Environment& env);

/// Returns the job's name, which begins the name of its run folder, too: --name, else the recipe's or the program's.
std::string job_name(const Recipe& settings, const SubmitFlags& flags);

/// Returns the Slurm account to charge: the setting, else $SBATCH_ACCOUNT, else nothing.
std::string job_account(const Recipe& settings, const Environment& env);

/// "train" for `python -u train.py --epochs 3`, "a.out" for `./a.out`: what a job is called after its command;
/// "shell" for none.
std::string name_of_program(const std::vector<std::string>& command);

/// Returns variables with folders on scratch for what PyTorch and Hugging Face download, if the profile's home folders
/// are too small for it. What the user has set is left out.
std::map<std::string, std::string> download_folders(const JobPlan& plan, const Profile& profile,
                                                    const Environment& env);

/// Where this user's runs lie: $LOCKSTEP_RUNS, else the profile's scratch where this user's own folder in it is known,
/// else runs/ in the working folder.
std::filesystem::path runs_folder(const Profile& profile, const std::string& account, const Environment& env);

}  // namespace lockstep
