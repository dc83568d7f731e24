// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/job/packed_sweep.h"
#include "lockstep/cluster/job/request.h"
#include "lockstep/cluster/setup/trainer_program.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// The arguments of `lockstep submit`.
struct SubmitRequest {
  SubmitFlags flags;
  std::vector<Override> settings{};  ///< From flags that stand for a setting.
  std::string cluster{};             ///< A profile's name or file. If empty, the recipe's, else "auto".
  std::string run_dir{};
  std::string stage{};
  std::string stage_data{};  ///< "DIR" or "DIR:INSIDE". Empty for none.
  std::vector<std::string> sweeps{};
  int chain = 0;
  std::string signal{};             ///< "NAME@S". Empty for none.
  int restarts = 0;                 ///< How often a step is started again within a job.
  int spares = 0;                   ///< Nodes of the job that replace lost ones.
  std::string requeue{};            ///< "yes" or "no". Empty is yes.
  std::optional<int> at_most{};     ///< Jobs of a sweep that run at once.
  std::optional<int> per_device{};  ///< Packed trials that share a device.
  struct {
    bool pack = false;
    bool interactive = false;
    bool dry_run = false;  ///< A missing container image is no error if the job is for another system.
  } is{};
};

/// The jobs to submit. Each has one run or, in a packed sweep, several trials.
struct Submission {
  std::vector<JobPlan> jobs{};
  std::vector<PackedJob> packed{};
  std::filesystem::path folder{};  ///< The run folder, or the folder of a sweep's trials.
  bool is_here = false;            ///< The jobs are for the system that this process runs on.

  const JobPlan& first() const { return packed.empty() ? jobs.front() : packed.front().node; }
};

/// Plans every job of the request, and creates nothing. Notes on settings go to the log. `lockstep` is the path of the
/// program that the jobs run.
///
/// Throws: as Recipe::load(), ProfileLibrary::chosen(), job_plan() and trials_of() do; Error(kUsage) for flags that do
///         not go together; Error(kEnvironment) if the container image is missing.
Submission plan_submission(const SubmitRequest& request, const LockstepProgram& lockstep, const Environment& env,
                           const Log& log);

/// A folder that this process has claimed for itself. If several processes want the same folder, only the first gets
/// it. The destructor removes the folders that were created, unless keep() was called.
class ClaimedFolder {
 public:
  /// Creates `path`. If it exists already, it belongs to another process, and has_it() is false.
  ///
  /// Throws: Error(kIo) if the folder cannot be created for another reason.
  explicit ClaimedFolder(std::filesystem::path path);
  ~ClaimedFolder();
  ClaimedFolder(const ClaimedFolder&) = delete;
  ClaimedFolder& operator=(const ClaimedFolder&) = delete;

  bool has_it() const { return has_it_; }
  void keep() { is_kept_ = true; }

 private:
  std::filesystem::path path_;
  bool has_it_ = false;
  bool is_kept_ = false;
};

}  // namespace lockstep
