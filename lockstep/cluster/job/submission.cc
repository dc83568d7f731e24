// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/submission.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/job/batch_script.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/record/run_index.h"
#include "lockstep/launch/process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path record_path(const fs::path& run_dir) { return run_dir / "job.json"; }

/// Returns Slurm's message without the prefix of the command, such as "sbatch: error: ".
std::string message_of(const ProcessResult& result) {
  std::vector<std::string> lines;
  for (const auto& line : split(result.errors, '\n')) {
    const auto text = trimmed(line);
    if (!text.empty()) lines.emplace_back(text);
  }
  return joined(lines, "; ");
}

/// Returns the command that lists the jobs of this name.
std::string question_by_name(const JobPlan& plan) { return "squeue --me --name=" + shell_quoted({plan.program.name}); }

/// Returns the job's number that `sbatch --parsable` has printed: the last line such as "1234" or "1234;cluster". A
/// site may have sbatch print lines of its own too.
std::optional<std::string> printed_number(std::string_view text) {
  std::optional<std::string> number;
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(trimmed(line), ';');
    if (fields.size() <= 2 && parsed_int<long long>(fields.front()).value_or(0) > 0) number = fields.front();
  }
  return number;
}

/// Fails if sbatch has failed. A busy controller may have queued the job although its answer did not arrive in time.
void check_answer(const ProcessResult& result, const JobPlan& plan) {
  if (result.exit_code == 0) return;
  const auto message = message_of(result);
  const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
  if (result.exit_code == 127) {
    throw Error(ErrorKind::kEnvironment, "there is no sbatch here: " + message,
                "submit from a login node of the cluster; --dry-run prints the script anywhere");
  }
  if (says("timed out") || says("Unable to contact")) {
    throw MayBeQueued(ErrorKind::kEnvironment, "sbatch got no answer, and the job may be queued: " + message,
                      "before you submit again, see what `" + question_by_name(plan) + "` lists");
  }
  // Slurm 22.05 says "is not a valid node count".
  if (plan.size.node_step > 1 && says("node count")) {
    throw Error(
        ErrorKind::kUsage,
        "this Slurm takes no steps between numbers of nodes, but --nodes is " + plan.size.nodes_text(),
        "leave the step out: --nodes " + std::to_string(plan.size.least_nodes) + "-" + std::to_string(plan.size.nodes));
  }
  throw Error(ErrorKind::kEnvironment, "sbatch refuses the job: " + message,
              "change what it names and submit again; --dry-run shows the script");
}

std::string submitted_id(const JobPlan& plan, const Environment& env, const std::string& after) {
  if (const auto clusters = env.get("SBATCH_CLUSTERS")) {
    throw Error(ErrorKind::kUsage,
                "SBATCH_CLUSTERS is '" + *clusters + "', which squeue, sacct and scancel do not heed",
                "export SLURM_CLUSTERS instead, which all of Slurm's tools follow, and submit");
  }
  std::vector<std::string> command = {"sbatch", "--parsable"};
  if (!after.empty()) command.push_back("--dependency=afterany:" + after);
  command.push_back(script_path(plan).string());
  const auto result = run_process(command, environment_for_sbatch(env));
  check_answer(result, plan);
  if (auto number = printed_number(result.output)) return *std::move(number);
  throw MayBeQueued(ErrorKind::kEnvironment,
                    "sbatch said '" + std::string(trimmed(result.output)) + "', want a job's number",
                    "`" + question_by_name(plan) + "` shows whether the job is queued");
}

struct NextJob {
  std::string id;
  std::int64_t submitted = 0;  ///< Seconds since 1970.
};

/// Returns the job that a script has submitted to continue the run, from the script's record.
std::optional<NextJob> next_job(const fs::path& run_dir) {
  const auto path = run_dir / "job.next";
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  auto id = printed_number(text_of_file(path));
  if (!id) return std::nullopt;
  return NextJob{*std::move(id), status.st_mtime};
}

void keep(const JobRecord& record, const fs::path& run_dir) {
  json object = {{"schema", 1},
                 {"job", record.job},
                 {"name", record.name},
                 {"cluster", record.cluster},
                 {"command", record.command},
                 {"nodes", record.nodes},
                 {"tasks", record.tasks},
                 {"is_recipe", record.is_recipe},
                 {"time_s", record.time_s},
                 {"submitted", record.submitted},
                 {"billing", {{"unit", record.billing.unit}, {"per_hour", record.billing.per_hour}}},
                 {"packed_in", record.packed_in},
                 {"step", record.step}};
  if (record.asked.is_known) {
    object["asked"] = {{"devices", record.asked.devices},
                       {"cores_per_task", record.asked.cores_per_task},
                       {"memory", record.asked.memory},
                       {"whole_nodes", record.asked.has_whole_nodes}};
  }
  write_whole(record_path(run_dir), json_text(object, 2) + "\n", false);
}

/// Writes the record of a job that is in the queue already.
void keep_queued(const JobRecord& record, const fs::path& run_dir) {
  try {
    make_folder(run_dir / "logs");
    keep(record, run_dir);
  } catch (const Error& error) {
    throw MayBeQueued(error.kind(), "job " + record.job + " is queued, but " + std::string(error.fact()),
                      "`scancel " + record.job + "` takes it out of the queue");
  }
}

JobAsk asked_from(const json& record) {
  if (!record.contains("asked")) return {};
  const auto& asked = record.at("asked");
  return {.is_known = true,
          .devices = asked.at("devices"),
          .cores_per_task = asked.at("cores_per_task"),
          .memory = asked.at("memory"),
          .has_whole_nodes = asked.at("whole_nodes")};
}

void make_executable(const fs::path& script) {
  const auto mask = ::umask(0);
  ::umask(mask);
  ::chmod(script.c_str(), 0755 & ~mask);
}

JobRecord submitted(const JobPlan& plan, const std::string& text, const Environment& env, const std::string& after) {
  const auto& run_dir = plan.paths.run_dir;
  std::error_code ignored;
  const bool was_there = fs::exists(run_dir, ignored);
  make_folder(log_path(plan).parent_path());
  const auto script = script_path(plan);
  write_whole(script, text, false);
  make_executable(script);
  JobRecord record{
      .job = {},
      .name = plan.program.name,
      .cluster = plan.cluster,
      .command = shell_quoted(plan.program.command),
      .nodes = plan.size.nodes,
      .tasks = plan.size.world(),
      .is_recipe = plan.program.is_recipe,
      .time_s = plan.queue.time->count(),
      .submitted =
          std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count(),
      .billing = plan.billing,
      .asked = {.is_known = true,
                .devices = plan.size.devices,
                .cores_per_task = plan.size.cores_per_task,
                .memory = plan.size.memory,
                .has_whole_nodes = plan.size.has_whole_nodes}};
  try {
    record.job = submitted_id(plan, env, after);
    SlurmQueue(env).forget();
  } catch (const MayBeQueued&) {
    throw;
  } catch (const Error&) {
    if (!was_there) fs::remove_all(run_dir, ignored);
    throw;
  }
  fs::remove(run_dir / "job.next", ignored);
  keep_queued(record, run_dir);
  remember_run(run_dir, env);
  return record;
}

}  // namespace

Environment environment_for_sbatch(const Environment& env) {
  static constexpr std::array kOverriding = {
      "SBATCH_ACCOUNT", "SBATCH_PARTITION",    "SBATCH_QOS",           "SBATCH_TIMELIMIT", "SBATCH_JOB_NAME",
      "SBATCH_OUTPUT",  "SBATCH_OPEN_MODE",    "SBATCH_SIGNAL",        "SBATCH_REQUEUE",   "SBATCH_NO_REQUEUE",
      "SBATCH_EXPORT",  "SBATCH_MEM_PER_NODE", "SBATCH_GPUS_PER_NODE", "SBATCH_GRES"};
  Environment::Map kept;
  for (const auto& [name, value] : env.all()) {
    const bool is_of_a_job = name.starts_with("SLURM_") && name != "SLURM_CONF" && name != "SLURM_CLUSTERS";
    const bool overrides = std::ranges::find(kOverriding, name) != kOverriding.end();
    if (!is_of_a_job && !overrides) kept.emplace(name, value);
  }
  return Environment(std::move(kept));
}

JobRecord submit_job(const JobPlan& plan, const Environment& env, const std::string& after) {
  return submitted(plan, batch_script(plan), env, after);
}

JobRecord submit_packed(const PackedJob& job, const Environment& env, const std::string& after) {
  const auto whole = submitted(job.node, packed_script(job), env, after);
  for (std::size_t i = 0; i < job.trials.size(); ++i) {
    const auto& trial = job.trials[i];
    const auto run_dir = job.sweep / trial.name;
    JobRecord record = whole;
    record.step = job.trials[i - i % static_cast<std::size_t>(job.per_device)].name;
    record.tasks = 1;
    record.command = shell_quoted(job.trial.program.command) + " " + shell_quoted(trial.arguments);
    record.billing.per_hour = whole.billing.per_hour / static_cast<double>(job.trials.size());
    record.asked = {};  // Of all trials together: it says nothing of one.
    record.packed_in = job.node.paths.run_dir.string();
    keep_queued(record, run_dir);
    remember_run(run_dir, env);
  }
  return whole;
}

std::optional<JobRecord> job_record(const fs::path& run_dir) {
  std::error_code ignored;
  const auto path = record_path(run_dir);
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    const auto object = json::parse(text_of_file(path));
    const std::string packed_in = object.value("packed_in", std::string());
    const fs::path job_dir = packed_in.empty() ? run_dir : fs::path(packed_in);
    const auto next = next_job(job_dir).value_or(NextJob{object.at("job"), object.at("submitted")});
    return JobRecord{.job = next.id,
                     .name = object.at("name"),
                     .cluster = object.at("cluster"),
                     .command = object.at("command"),
                     .nodes = object.at("nodes"),
                     .tasks = object.at("tasks"),
                     .is_recipe = object.at("is_recipe"),
                     .time_s = object.at("time_s"),
                     .submitted = next.submitted,
                     .billing = billing_from(object),
                     .asked = asked_from(object),
                     .packed_in = packed_in,
                     .step = object.value("step", run_dir.filename().string())};
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kData, "'" + path.string() + "' holds no record of a job: " + error.what(),
                "`squeue --me` shows what is queued");
  }
}

}  // namespace lockstep
