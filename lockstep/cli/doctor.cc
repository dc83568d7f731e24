// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/doctor.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/cli/job_script.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/doctor/bundle.h"
#include "lockstep/cluster/doctor/doctor.h"
#include "lockstep/cluster/doctor/meeting.h"
#include "lockstep/cluster/doctor/node_look.h"
#include "lockstep/cluster/doctor/nodes.h"
#include "lockstep/cluster/doctor/report.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/task/exec_task.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct DoctorOptions {
  std::string cluster = "auto";
  std::string run;
  std::vector<std::string> logs;
  std::string bundle;
  std::string script;
  bool is_json = false;
  bool is_node = false;
  bool asks_torch = false;
};

RunUnderTest run_of(const DoctorOptions& options, const Environment& env) {
  RunUnderTest run;
  for (const auto& log : options.logs) {
    if (!fs::exists(log)) throw Error(ErrorKind::kUsage, "there is no log '" + log + "'", "check the path");
    run.logs.push_back(fs::absolute(log));
  }
  if (fs::is_directory(options.run)) {
    check_may_read(options.run);
    run.run_dir = fs::absolute(options.run);
  } else if (!options.run.empty()) {
    run.run_dir = run_job(options.run, run_places(env)).path;
  } else if (const auto here = env.get("LOCKSTEP_RUN_DIR")) {
    run.run_dir = fs::absolute(*here);
  }
  return run;
}

/// Finds the address of rank 0 as `lockstep exec` does, but with a shorter timeout.
Rendezvous rendezvous_for(const DoctorContext& of) {
  auto variables = of.env.all();
  variables.try_emplace("LOCKSTEP_MEET_TIMEOUT", "8");
  auto found = rendezvous_of(of.at, Environment(std::move(variables)), settings_of(of.profile),
                             rendezvous_folder(of.run.run_dir, of.env));
  // If torchrun started this rank, the store of torchrun's agent already listens on the ranks' port.
  if (of.at.source == "torchrun") ++found.master.port;
  return found;
}

/// Returns the job as rank 0 sees it. Returns nothing on other ranks, whose findings were sent to rank 0.
std::optional<JobReport> met(const DoctorContext& of, std::vector<Finding>& findings, const Log& log) {
  const auto self = task_view(of, findings);
  JobReport alone;
  alone.tasks.push_back(self);
  if (of.at.world == 1) return alone;
  if (!joins(of.at)) return std::nullopt;
  try {
    const auto place = rendezvous_for(of);
    std::optional<RendezvousFileRemover> remover;
    if (place.published) remover.emplace(*place.published);
    return meeting(of.at, place.master, self);
  } catch (const Error& error) {
    if (of.at.rank == 0) {
      alone.broken.push_back(self.host + " (" + error.what() + ")");
      return alone;
    }
    log.warning("rank " + std::to_string(of.at.rank) + " did not reach rank 0: " + error.what() +
                (of.at.local_rank == 0 ? "\n" + text_of(findings, checks_of(of.run)) : ""));
    return std::nullopt;
  }
}

json json_of_job(const DoctorContext& of, const JobReport& job, const std::vector<Finding>& findings) {
  json object = {{"schema", 1},
                 {"cluster", of.profile.name},
                 {"host", of.host},
                 {"job", nullptr},
                 {"world", of.at.world},
                 {"nodes", of.at.nodes},
                 {"tasks_met", job.tasks.size()},
                 {"run_dir", nullptr},
                 {"checks", json_of(checks_of(of.run))},
                 {"findings", json::array()},
                 {"clocks", json::array()},
                 {"links", json::array()}};
  if (!of.at.job.empty()) object["job"] = of.at.job;
  if (!of.run.run_dir.empty()) object["run_dir"] = of.run.run_dir.string();
  for (const auto& finding : sorted(findings)) object["findings"].push_back(json_of(finding));
  for (const auto& clock : job.clocks) {
    object["clocks"].push_back({{"host", clock.host}, {"ahead_s", clock.ahead_s}, {"uncertain_s", clock.uncertain_s}});
  }
  for (const auto& link : job.links) {
    object["links"].push_back({{"from", link.from}, {"to", link.to}, {"bytes_per_second", link.bytes_per_second}});
  }
  return object;
}

/// Checks this node. job.sh calls it on each node before the ranks start. For a faulty node it prints one line to
/// standard output, which the script reads.
void examine_node(const DoctorOptions& options, Context& context) {
  const auto here = HostFacts::of_process(context.env);
  const auto of = DoctorContext::of_process(context.env, ProfileLibrary(context.env).chosen(options.cluster, here),
                                            run_of(options, context.env));
  const auto look = look_at_node(of, {.command = context.program, .is_python = options.asks_torch});
  for (const auto& finding : look.findings) {
    if (finding.severity == Severity::kNote) continue;
    const std::string text = look.node + ": " + finding.code + ": " + finding.fact + "\n  hint: " + finding.fix;
    finding.severity == Severity::kError ? context.log.error(text) : context.log.warning(text);
  }
  if (look.is_sick) print_text("sick node: " + look.node + "\n");
  if (!look.has_started) context.exit_code = 1;
  if (has_error(look.findings)) context.exit_code = exit_code(ErrorKind::kEnvironment);
}

void examine(const DoctorOptions& options, Context& context) {
  if (options.is_node) return examine_node(options, context);
  if (!context.program.empty()) {
    throw Error(
        ErrorKind::kUsage,
        "`lockstep doctor` takes a program with --node alone, but was given '-- " + context.program.front() + "'",
        "leave out `--` and what follows it");
  }
  if (!options.script.empty()) {
    if (!options.run.empty() || !options.logs.empty() || !options.bundle.empty()) {
      throw Error(ErrorKind::kUsage,
                  "doctor " + options.script + " looks at the script alone, but --run, --log or --bundle was given",
                  "call doctor once with the script, and once without");
    }
    return print_script_findings({options.script, options.cluster, options.is_json}, context);
  }
  const auto here = HostFacts::of_process(context.env);
  auto of = DoctorContext::of_process(context.env, ProfileLibrary(context.env).chosen(options.cluster, here),
                                      run_of(options, context.env));
  auto found = findings_of(of);
  Findings told_already;
  place(of, told_already);
  const auto job = met(of, found, context.log);
  if (!job) {
    // Rank 0 reports for all tasks. A task that it could not reach ends with an error.
    if (has_error(found)) context.exit_code = exit_code(ErrorKind::kEnvironment);
    return;
  }
  const auto findings = merged(*job);
  const auto object = json_of_job(of, *job, findings);
  if (!options.bundle.empty()) {
    write_bundle(options.bundle, bundle_files(of, json_text(object, 2) + "\n", LOCKSTEP_VERSION));
    context.log.info("the bundle is '" + options.bundle + "': values of tokens, keys and passwords are left out");
  }
  if (options.is_json) {
    print_json(object);
  } else {
    print_text(text_of(findings, checks_of(of.run), job->tasks.size()));
  }
  if (has_error(findings)) context.exit_code = exit_code(ErrorKind::kEnvironment);
}

}  // namespace

bool tell_quick_findings(const QuickLook& look, const Environment& env, const Log& log) {
  if (env.get("LOCKSTEP_DOCTOR") == "off") return false;
  try {
    const auto here = HostFacts::of_process(env);
    auto of = DoctorContext::of_process(env, ProfileLibrary(env).chosen(look.cluster, here), {});
    auto findings = quick_findings(of);
    std::erase_if(findings, [&](const auto& finding) { return !look.concerns(finding.code); });
    Findings told_already;
    place(of, told_already);
    for (const auto& finding : findings) {
      if (of.at.local_rank != 0 || finding.severity == Severity::kNote) continue;
      const std::string text = finding.code + ": " + finding.fact + "\n  hint: " + finding.fix;
      finding.severity == Severity::kError ? log.error(text) : log.warning(text);
    }
    return has_error(findings);
  } catch (const std::exception&) {
    // An exception is ignored here. The start of the run itself reports a wrong profile or variable.
    return false;
  }
}

void add_doctor(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "doctor",
      "Find what is wrong with this node, job or run, and say how to fix it. Exits with 4 if it finds an error");
  auto options = std::make_shared<DoctorOptions>();
  command->add_option("SCRIPT", options->script, "A batch script: check it, and nothing else");
  command->add_option("--cluster", options->cluster, "The cluster's profile: a name, a file or auto (default: auto)")
      ->type_name("NAME");
  command->add_option("--run", options->run, "A run, by folder or name: check its logs and its disk space too")
      ->type_name("RUN");
  command->add_option("--log", options->logs, "A log that NCCL or RCCL wrote with NCCL_DEBUG=INFO")->type_name("FILE");
  command->add_flag("--json", options->is_json, "Print one JSON object on standard output");
  command
      ->add_option(
          "--bundle", options->bundle,
          "Also collect what a support ticket needs: FILE.tar.gz, or a folder. In a job, only rank 0 writes it")
      ->type_name("FILE");
  auto* node = command->add_flag(
      "--node", options->is_node,
      "Check this node alone, within 2 s, and see whether the program after -- starts. The batch scripts of `lockstep "
      "submit` do it on each node before the ranks start");
  command
      ->add_flag("--torch", options->asks_torch,
                 "With --node: the program is a Python interpreter, or starts one; ask whether its PyTorch sees GPUs")
      ->needs(node);
  context.program_takers.push_back(command);
  command->footer(examples_section(
      {{"srun lockstep doctor",
        "Inside a job, before you train: check all of its nodes, their clocks and the links between them. Rank 0 "
        "prints one report."},
       {"srun lockstep doctor --bundle ticket.tar.gz",
        "The same, and write one file for a support ticket. Values of tokens, keys and passwords are left out."},
       {"lockstep doctor job.sh", "Check a batch script before you submit it."}},
      static_cast<std::size_t>(columns_of(context.env))));
  command->callback([&context, options] { examine(*options, context); });
}

}  // namespace lockstep::cli
