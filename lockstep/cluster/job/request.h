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

/// The options of `lockstep submit` that are not settings of a recipe.
struct SubmitFlags {
  std::string recipe;                ///< The recipe's file. Empty for a program.
  std::vector<std::string> program;  ///< The words after `--`.
  std::vector<std::string> sets;     ///< "a.b=v", as typed.
  std::string name;                  ///< For the queue and the run folder. By default the recipe's or the program's
                                     ///< name.
  bool has_stage = false;            ///< An environment is sent to the nodes.
  std::vector<std::string> sbatch;   ///< Each "--flag" or "--flag=value".
  std::optional<int> devices{};
  std::optional<int> tasks{};
  std::optional<int> cores_per_task{};
};

/// Combines settings and flags into a request, for the cluster of `profile`. The request's paths are set later, except
/// those of the working folder's binds.
///
/// Throws: Error(kUsage) for a flag of sbatch that duplicates an option; Error(kRecipe) for a path with a variable that
/// is not set.
JobRequest job_request(const Recipe& settings, const SubmitFlags& flags, const Profile& profile,
                       const Environment& env);

/// True if the program is "python" without a path, and the job has neither an environment nor an image in which to find
/// it.
bool needs_environment(const Recipe& settings, const SubmitFlags& flags, const Environment& env);

/// Returns the job's name, which also begins its run folder's name. It is --name, or else the recipe's or the
/// program's.
std::string job_name(const Recipe& settings, const SubmitFlags& flags);

/// Returns the Slurm account to charge. It is the recipe's setting, or else $SBATCH_ACCOUNT. Nothing if neither is set.
/// The profile's default is applied later, in job_plan().
std::string job_account(const Recipe& settings, const Environment& env);

/// Returns a job's name from its command, such as "train" for `python -u train.py --epochs 3` or "a.out" for `./a.out`.
/// For an empty command it is "shell".
std::string name_of_program(const std::vector<std::string>& command);

/// Returns variables that send downloads of PyTorch and Hugging Face to scratch, if the profile's home folders are too
/// small. Variables that the user has set are left out.
std::map<std::string, std::string> download_folders(const JobPlan& plan, const Profile& profile,
                                                    const Environment& env);

/// Returns the folder of this user's runs. It is $LOCKSTEP_RUNS, or else on the profile's scratch if this user's own
/// folder there is known, or else runs/ in the working folder.
std::filesystem::path runs_folder(const Profile& profile, const std::string& account, const Environment& env);

}  // namespace lockstep
