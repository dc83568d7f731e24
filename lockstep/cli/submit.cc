// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/doctor.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/cli/job_script.h"
#include "lockstep/cluster/flag/sweep.h"
#include "lockstep/cluster/job/batch_script.h"
#include "lockstep/cluster/job/session.h"
#include "lockstep/cluster/job/submission.h"
#include "lockstep/cluster/job/submit_request.h"
#include "lockstep/cluster/record/sweep_record.h"
#include "lockstep/launch/program.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct SubmitOptions {
  SubmitRequest request;
  std::string from;
  bool json = false;
};

/// Returns the price of the job if it uses all of its time.
double most_billed(const JobPlan& plan) {
  return plan.billing.hours(static_cast<double>(plan.queue.time->count()), plan.size.nodes);
}

/// A job that is submitted, or, without a number, one that is only planned.
nlohmann::json json_of(const JobPlan& plan, const std::string& job = {}) {
  return {{"schema", 1},
          {"job", job.empty() ? nlohmann::json(nullptr) : nlohmann::json(job)},
          {"run_dir", plan.paths.run_dir.string()},
          {"script", script_path(plan).string()},
          {"log", log_path(plan).string()},
          {"cluster", plan.cluster},
          {"nodes", plan.size.nodes},
          {"least_nodes", plan.size.is_range() ? plan.size.least_nodes : plan.size.nodes},
          {"tasks", plan.size.world()},
          {"billing", {{"unit", plan.billing.unit}, {"most", most_billed(plan)}}}};
}

nlohmann::json trials_of(const PackedJob& job) {
  auto folders = nlohmann::json::array();
  for (const auto& trial : job.trials) folders.push_back((job.sweep / trial.name).string());
  return folders;
}

/// Returns the JSON of one job, or for several jobs an object with a list `jobs`.
void print_jobs(nlohmann::json jobs, const Submission& submission, const SubmitRequest& request) {
  if (!submission.packed.empty()) return print_json({{"schema", 1}, {"jobs", std::move(jobs)}});
  print_json(request.sweeps.empty() ? jobs.front() : nlohmann::json{{"schema", 1}, {"trials", std::move(jobs)}});
}

/// Packs the environment and the data of a job, unless the packs exist.
template <typename Staged>
void pack_once(const Staged& staged, const Context& context) {
  if (staged.from.empty()) return;
  std::error_code ignored;
  if (!fs::exists(staged.pack, ignored)) {
    context.log.info("packing '" + staged.from.string() + "' into '" + staged.pack.string() + "', once for all jobs");
  }
  if (!make_pack(staged, context.env)) return;
  context.log.info("packed: " + human_bytes(fs::file_size(staged.pack, ignored)));
}

void print_scripts(const Submission& submission, const SubmitOptions& options) {
  auto jobs = nlohmann::json::array();
  const auto tell = [&](const JobPlan& plan, const std::string& script) {
    if (!options.json) return print_text(script);
    jobs.push_back(json_of(plan));
    jobs.back()["script_text"] = script;
  };
  const bool is_session = options.request.is.interactive;
  for (const auto& plan : submission.jobs) {
    tell(plan, is_session ? session_script(plan) : batch_script(plan));
    if (options.json && is_session) jobs.back().update({{"script", session_path(plan).string()}, {"log", nullptr}});
  }
  for (const auto& job : submission.packed) {
    tell(job.node, packed_script(job));
    if (options.json) jobs.back()["trials"] = trials_of(job);
  }
  if (options.json) print_jobs(std::move(jobs), submission, options.request);
}

/// Replaces this process by `salloc`.
void start_session(const JobPlan& plan, ClaimedFolder* claimed, const Context& context) {
  const auto env = environment_for_sbatch(context.env);
  const auto command = session_command(plan);
  const auto salloc = found_program(command.front(), env);
  make_folder(plan.paths.run_dir);
  write_whole(session_path(plan), session_script(plan), false);
  context.log.info("run folder " + plan.paths.run_dir.string());
  if (claimed != nullptr) claimed->keep();
  become(salloc, command, env);
}

/// Writes the swept values into the sweep's folder, for `lockstep report`.
void keep_values(const Submission& submission, const SubmitRequest& request) {
  if (request.sweeps.empty()) return;
  std::vector<SweptTrial> trials;
  for (const auto& trial : lockstep::trials_of(request.sweeps)) trials.push_back({trial.name, trial.sets});
  keep_sweep(submission.folder, trials);
}

/// Submits a job. Its claimed folder stays if the job is queued, or may be.
template <typename Submit>
JobRecord submitted(const Submit& submit, ClaimedFolder* claimed) {
  const auto keep = [claimed] {
    if (claimed != nullptr) claimed->keep();
  };
  try {
    auto record = submit();
    keep();
    return record;
  } catch (const MayBeQueued&) {
    keep();
    throw;
  }
}

void submit_all(const Submission& submission, const SubmitOptions& options, ClaimedFolder* claimed,
                const Context& context) {
  auto jobs = nlohmann::json::array();
  std::vector<std::string> ids;
  // Each job waits for the job that was submitted `at_most` places before it. So at most this many run at once.
  const auto before = [&] {
    const auto most = static_cast<std::size_t>(options.request.at_most.value_or(0));
    return most == 0 || ids.size() < most ? std::string() : ids[ids.size() - most];
  };
  const auto tell = [&](const JobRecord& record, const JobPlan& plan, const std::string& what) {
    if (ids.empty()) keep_values(submission, options.request);  // The first job has made the folder.
    ids.push_back(record.job);
    jobs.push_back(json_of(plan, record.job));
    if (!options.json) print_text("job " + record.job + what + "\nrun folder " + plan.paths.run_dir.string() + "\n");
  };
  for (const auto& plan : submission.jobs) {
    tell(submitted([&] { return submit_job(plan, context.env, before()); }, claimed), plan, "");
  }
  for (const auto& job : submission.packed) {
    tell(submitted([&] { return submit_packed(job, context.env, before()); }, claimed), job.node,
         ": " + counted(std::ssize(job.trials), "trial"));
    jobs.back()["trials"] = trials_of(job);
  }
  if (options.json) print_jobs(std::move(jobs), submission, options.request);
}

/// Checks what this machine and the nodes have in common: the variables that the job inherits, and the shared file
/// systems. Limits and devices are not checked, since those of the nodes may differ.
void check_quickly(const JobPlan& plan, const Context& context) {
  const auto travels = [&](const std::string& code) {
    return code.starts_with("cache-") || code.starts_with("space-") ||
           (code.starts_with("variable-") && !plan.exports_nothing);
  };
  if (!tell_quick_findings({.cluster = plan.paths.profile, .concerns = travels}, context.env, context.log)) return;
  throw Error(ErrorKind::kEnvironment, "the job would meet the problems above",
              "fix them first or, if they do not matter here, run LOCKSTEP_DOCTOR=off lockstep submit …");
}

/// Creates the planned run folder, unless the user named it. If another submission has taken the name, the jobs are
/// planned again, since the folder's name is in their scripts.
std::unique_ptr<ClaimedFolder> claim_folder(Submission& submission, const SubmitRequest& request,
                                            const Context& context) {
  if (!request.run_dir.empty()) return nullptr;
  while (true) {
    auto claimed = std::make_unique<ClaimedFolder>(submission.folder);
    if (claimed->has_it()) return claimed;
    submission = plan_submission(request, running_lockstep(), context.env, Log(-1));
  }
}

void submit(SubmitOptions& options, Context& context) {
  auto& request = options.request;
  request.flags.program = context.program;
  if (!options.from.empty()) {
    const std::string cluster = request.cluster.empty() ? "auto" : request.cluster;
    return print_script_beside_ours({options.from, cluster, options.json}, request, context);
  }
  auto submission = plan_submission(request, running_lockstep(), context.env, context.log);
  const auto& first = submission.first();
  const bool is_program = !first.program.is_recipe && !request.is.interactive;
  if (first.size.devices == 0 && first.size.tasks == 1 && !request.flags.tasks && is_program) {
    context.log.info("no devices are asked for: " + first.cluster +
                     " knows none, so each node runs one task; --devices N asks for N");
  }
  if (first.cluster != "generic") {
    context.log.info("a job costs at most " + billed_text(most_billed(first), first.billing.unit) + ": " +
                     hh_mm_ss(*first.queue.time) + " of " + counted(first.size.nodes, "node"));
  }
  if (request.is.dry_run) return print_scripts(submission, options);
  if (submission.is_here) check_quickly(first, context);
  pack_once(first.stage, context);
  pack_once(first.data, context);
  const auto claimed = claim_folder(submission, request, context);
  if (request.is.interactive) return start_session(submission.first(), claimed.get(), context);
  submit_all(submission, options, claimed.get(), context);
}

/// Adds a flag for a setting. The flag overrides the recipe, and errors name the flag.
CLI::Option* add_setting(CLI::App& command, std::vector<Override>& settings, const std::string& flag,
                         const std::string& key, const std::string& help) {
  return command.add_option_function<std::string>(
      flag,
      [&settings, flag, key](const std::string& value) {
        settings.push_back({key, toml_quoted(value), {SettingSource::kFlag, flag}});
      },
      help);
}

/// Adds the settings for a value of --nodes, such as "4", "2-16" or "2-16:2". A wrong value is refused later, together
/// with wrong settings.
void add_nodes(std::vector<Override>& settings, const std::string& value) {
  const Origin flag{SettingSource::kFlag, "--nodes"};
  const auto dash = value.find('-', 1);
  if (dash == std::string::npos) return settings.push_back({"cluster.nodes", value, flag});
  const auto colon = value.find(':', dash);
  settings.push_back({"cluster.min_nodes", value.substr(0, dash), flag});
  settings.push_back({"cluster.nodes", value.substr(dash + 1, colon - dash - 1), flag});
  if (colon != std::string::npos) settings.push_back({"cluster.node_step", value.substr(colon + 1), flag});
}

/// Adds the options for numbers and for the time limit. Slurm would read a time without colons as minutes.
void add_numbers(CLI::App& command, std::vector<Override>& settings) {
  command
      .add_option_function<std::string>(
          "--nodes", [&settings](const std::string& value) { add_nodes(settings, value); },
          "Number of nodes; A-B takes what the queue has, and A-B:S only every S-th number between them")
      ->type_name("N|A-B[:S]");
  command
      .add_option_function<std::string>(
          "--time",
          [&settings](const std::string& value) {
            if (value.find(':') == std::string::npos) {
              throw Error(ErrorKind::kUsage, "--time is '" + value + "', want HH:MM:SS or D-HH:MM:SS",
                          "without colons, minutes and seconds cannot be told apart");
            }
            settings.push_back({"cluster.time", toml_quoted(value), {SettingSource::kFlag, "--time"}});
          },
          "Time limit of the job (default: the profile's)")
      ->type_name("HH:MM:SS");
}

/// Adds a flag that may be repeated. All its values make one list.
CLI::Option* add_list(CLI::App& command, std::vector<Override>& settings, const std::string& flag,
                      const std::string& key, const std::string& help) {
  return command
      .add_option_function<std::vector<std::string>>(
          flag,
          [&settings, flag, key](const std::vector<std::string>& values) {
            settings.push_back(
                {key, "[" + joined(map_each(values, toml_quoted), ", ") + "]", {SettingSource::kFlag, flag}});
          },
          help)
      ->allow_extra_args(false);
}

/// Adds the options for the account, the queue, and the environment of tasks.
void add_surroundings(CLI::App& command, std::vector<Override>& settings) {
  add_setting(command, settings, "--account", "cluster.account", "Slurm account to charge")->type_name("NAME");
  add_setting(command, settings, "--partition", "cluster.partition", "Slurm partition (default: the profile's)")
      ->type_name("NAME");
  add_setting(command, settings, "--qos", "cluster.qos", "Slurm quality of service (default: the profile's)")
      ->type_name("NAME");
  add_setting(command, settings, "--container", "cluster.container", "Container image that tasks run in")
      ->type_name("IMAGE");
  add_setting(command, settings, "--conda", "cluster.conda", "Conda environment to activate, by name or path")
      ->type_name("ENV");
  add_list(command, settings, "--bind", "cluster.binds", "Folder to bind into the container; may be repeated")
      ->type_name("DIR[:INSIDE]");
  add_list(command, settings, "--env", "cluster.env", "Environment variable of the job; may be repeated")
      ->type_name("NAME=VALUE");
  add_list(command, settings, "--setup", "cluster.setup", "Shell command that each task runs first; may be repeated")
      ->type_name("COMMAND");
  add_list(command, settings, "--setup-once", "cluster.setup_once",
           "Shell command that the job runs once, outside the container; tasks see what it exports; may be repeated")
      ->type_name("COMMAND");
}

/// Adds the options for whether and how a run continues in another job.
void add_going_on(CLI::App& command, SubmitRequest& request) {
  command.add_option("--chain", request.chain, "Run as up to K jobs, one after the other")->type_name("K");
  command
      .add_option(
          "--signal", request.signal,
          "Send the program this signal S seconds before the time limit; after it exits, continue in another job")
      ->type_name("NAME@S");
  command
      .add_option("--requeue", request.requeue,
                  "Whether the run may start again after its time limit, exit code 75 or a lost node (default: yes)")
      ->type_name("yes|no");
  command
      .add_option("--restarts", request.restarts,
                  "Start a step that fails again within its job, up to R times, without the node to blame")
      ->type_name("R");
  command.add_option("--spares", request.spares, "Ask for K more nodes, which replace lost ones")->type_name("K");
}

/// Adds the options for data and software on the nodes' local disks.
void add_stages(CLI::App& command, SubmitRequest& request) {
  command
      .add_option("--stage", request.stage,
                  "Copy a conda environment, a venv or `lockstep` to the nodes' local disks, as one file")
      ->type_name("ENV");
  command
      .add_option("--stage-data", request.stage_data,
                  "Copy a data folder to the nodes' local disks ($LOCKSTEP_DATA), and copy $LOCKSTEP_RESULTS back")
      ->type_name("DIR[:INSIDE]");
}

}  // namespace

void add_submit(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("submit", "Submit a recipe or any program to Slurm");
  auto options = std::make_shared<SubmitOptions>();
  auto& request = options->request;
  auto& flags = request.flags;
  command->add_option("RECIPE", flags.recipe, "The recipe: a TOML file, or the name of a built-in recipe");
  command
      ->add_option("--set", flags.sets,
                   "Set one setting of the recipe; may be repeated. `lockstep recipe ls` lists every setting")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  add_numbers(*command, request.settings);
  command->add_option("--devices", flags.devices, "GPUs on each node; 0 for none")->type_name("N");
  command->add_option("--tasks-per-node", flags.tasks, "Tasks on each node (default: one per GPU)")->type_name("N");
  command
      ->add_option("--cores-per-task", flags.cores_per_task,
                   "CPU cores of each task (default: the GPU's share of the node)")
      ->type_name("N");
  command->add_option("--cluster", request.cluster, "The cluster's profile: a name, a file or auto (default: auto)")
      ->type_name("NAME");
  add_surroundings(*command, request.settings);
  command
      ->add_option("--sbatch", flags.sbatch, "Further sbatch flag, for example --sbatch=--exclusive; may be repeated")
      ->type_name("FLAG")
      ->allow_extra_args(false);
  command->add_option("--name", flags.name, "Job name")->type_name("NAME");
  command->add_option("--run-dir", request.run_dir, "The run's folder (default: named by job name and time)")
      ->type_name("DIR");
  add_going_on(*command, request);
  command
      ->add_option("--sweep", request.sweeps,
                   "Submit one job per value of a setting (table.key=v,w), or of {NAME} in a command (NAME=v,w)")
      ->type_name("NAME=V,W")
      ->allow_extra_args(false);
  command->add_option("--at-most", request.at_most, "Run at most N jobs of a sweep at once")->type_name("N");
  command->add_flag("--pack", request.is.pack, "Run as many trials of a sweep on a node as it has GPUs");
  command->add_option("--per-device", request.per_device, "With --pack: run K trials on each GPU (default: 1)")
      ->type_name("K");
  command->add_flag("--interactive", request.is.interactive,
                    "Start a shell on a node, or `-- jupyter lab`, set up like a batch job");
  add_stages(*command, request);
  command
      ->add_option("--from", options->from,
                   "Print your batch script beside ours, with the reason for each difference; submits nothing")
      ->type_name("JOB.SH");
  command->add_flag("--dry-run", request.is.dry_run, "Print the batch script on standard output, and create nothing");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  context.program_takers.push_back(command);
  command->footer(examples_section(
      {{"lockstep submit digits --nodes 4 --time 01:00:00 --account abc123 --dry-run",
        "Print the batch script. Without --dry-run it is kept in the run's folder as job.sh, and submitted."},
       {"lockstep submit --nodes 2 -- python train.py",
        "Start one task for each GPU. Each has RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. A launcher "
        "that starts ranks itself, such as torchrun, needs --tasks-per-node 1."}},
      static_cast<std::size_t>(columns_of(context.env))));
  command->callback([&context, options] { submit(*options, context); });
}

}  // namespace lockstep::cli
