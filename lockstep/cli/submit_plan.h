// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/cluster/job_plan.h"
#include "lockstep/cluster/job_wish.h"
#include "lockstep/cluster/packed_sweep.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep::cli {

/// What `lockstep submit` was asked for.
struct SubmitOptions {
  SubmitFlags flags;
  std::vector<Override> settings{};  ///< From flags that stand for a setting.
  std::string cluster{};
  std::string run_dir{};
  std::string stage{};
  std::vector<std::string> sweeps{};
  int chain = 0;
  struct {
    bool pack = false;
    bool interactive = false;
    bool dry_run = false;
    bool json = false;
  } is{};
};

/// What will be submitted: jobs each of their own, or, of a packed sweep, jobs of several trials.
struct Submission {
  std::vector<JobPlan> jobs{};
  std::vector<PackedJob> packed{};
  bool is_here = false;  ///< This is the system that they are for.

  const JobPlan& first() const { return packed.empty() ? jobs.front() : packed.front().node; }
};

/// Works out every number of every job, and creates nothing. Notes on settings go to the log.
///
/// Throws: as Recipe::load(), ProfileLibrary::chosen(), job_plan() and trials_of() do; Error(kUsage) for flags that do
///         not go together; Error(kEnvironment) for a container image that is missing.
Submission submission_of(const SubmitOptions& options, const Context& context);

}  // namespace lockstep::cli
