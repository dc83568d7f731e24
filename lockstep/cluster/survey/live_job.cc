// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/live_job.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/batch_script.h"
#include "lockstep/cluster/job/submission.h"
#include "lockstep/cluster/job/submit_request.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/launch/slurm_tool.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

fs::path view_file(const fs::path& run_dir, int rank) { return run_dir / "node" / (rank_name(rank) + ".json"); }

SubmitRequest request_for(const std::string& cluster, const LockstepProgram& lockstep,
                          const std::vector<std::string>& folders) {
  SubmitRequest request;
  request.cluster = cluster;
  request.flags.name = "profile-check";
  request.flags.program = {lockstep.path.string(), "profile", "node", "--into-run"};
  for (const auto& folder : folders) request.flags.program.insert(request.flags.program.end(), {"--folder", folder});
  request.settings.push_back({"cluster.time", toml_quoted("00:02:00"), {SettingSource::kFlag, "profile check --live"}});
  return request;
}

/// Lists the folder, since a network file system may remember for a while that a file was not there.
bool have_all_reported(const JobPlan& plan) {
  const auto names = names_in(view_file(plan.paths.run_dir, 0).parent_path());
  return std::ranges::count_if(names, [](const auto& name) { return name.ends_with(".json"); }) >= plan.size.world();
}

/// Returns "PENDING (Priority)". Empty once the job has left the queue. Nothing if Slurm does not answer.
std::optional<std::string> queue_state(const std::string& job, const Environment& env) {
  const auto asked = run_slurm_tool({"squeue", "--noheader", "--jobs=" + job, "--format=%T (%r)"}, env);
  if (is_unknown_job(asked)) return std::string();
  return asked.exit_code == 0 ? std::optional(std::string(trimmed(asked.output))) : std::nullopt;
}

/// Waits for the job's files. It looks for the files every half second, which costs little. It asks Slurm only every
/// ten seconds, since that loads a shared service. A busy Slurm may not answer, and is asked again. Once the job has
/// left the queue, the files have ten more seconds to arrive through a network file system.
void wait_for(const JobPlan& plan, const std::string& job, const Environment& env, const Log& log) {
  std::string told;
  bool has_left = false;
  bool has_warned = false;
  for (int round = 0; !have_all_reported(plan); ++round) {
    if (round % 20 == 4) {
      const auto state = queue_state(job, env);
      if (state) {
        if (state->empty() && has_left) return;
        has_left = state->empty();
        if (!has_left && *state != told) log.info("job " + job + ": " + *state);
        told = *state;
      } else if (!std::exchange(has_warned, true)) {
        log.warning("squeue does not answer; asks again");
      }
    }
    std::this_thread::sleep_for(500ms);
  }
}

std::vector<NodeView> views_in(const JobPlan& plan) {
  std::vector<NodeView> views;
  std::error_code ignored;
  for (int rank = 0; rank < plan.size.world(); ++rank) {
    const auto file = view_file(plan.paths.run_dir, rank);
    if (fs::exists(file, ignored)) views.push_back(parsed_node_view(text_of_file(file)));
  }
  return views;
}

}  // namespace

LiveReport checked_live(const std::string& cluster, const LockstepProgram& lockstep, const Environment& env,
                        const Log& log) {
  const auto profile = ProfileChooser(env).chosen(cluster);
  const auto submission =
      plan_submission(request_for(cluster, lockstep, folders_to_check(profile, env)), lockstep, env, log);
  const auto& plan = submission.first();
  const auto record = submit_job(plan, env);
  log.info("job " + record.job + " looks at a node of " + profile.name + "; its log is " + log_path(plan).string());
  wait_for(plan, record.job, env, log);
  LiveReport report{.profile = profile.name, .job = record.job, .log = log_path(plan), .views = views_in(plan)};
  report.differences = live_differences(
      profile, {.tasks = plan.size.world(), .cores_per_task = plan.size.cores_per_task, .devices = plan.size.devices},
      report.views);
  return report;
}

void write_view(const NodeView& view, const Environment& env) {
  const auto run_dir = env.get("LOCKSTEP_RUN_DIR");
  const auto rank = env.get_int("RANK");
  if (!run_dir || !rank) {
    throw Error(ErrorKind::kEnvironment, "LOCKSTEP_RUN_DIR or RANK is not set, so the view has no place",
                "`lockstep profile check --live` starts this in a job");
  }
  const auto file = view_file(*run_dir, *rank);
  make_folder(file.parent_path());
  write_whole(file, to_json(view).dump() + "\n", false);
}

}  // namespace lockstep
