// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/session.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/shell_text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/script_parts.h"

namespace lockstep {
namespace {

struct KnownServer {
  std::string_view name;  ///< The beginning of the name of a program or a Python module.
  std::array<std::string_view, 3> flags;
};

constexpr std::array kServers = {
    KnownServer{"jupyter", {"--no-browser", "--ip=\"$(hostname)\"", "--port=\"$port\""}},
    KnownServer{"notebook", {"--no-browser", "--ip=\"$(hostname)\"", "--port=\"$port\""}},
    KnownServer{"tensorboard", {"--host=\"$(hostname)\"", "--port=\"$port\"", ""}},
};

/// Returns the server's name, such as "jupyter" for `jupyter lab` and for `python -m jupyter lab`.
std::string served_name(const std::vector<std::string>& command) {
  if (command.empty()) return {};
  auto name = std::filesystem::path(command.front()).filename().string();
  const auto module = std::ranges::find(command, "-m");
  if (name.starts_with("python") && module != command.end() && module + 1 != command.end()) name = module[1];
  return name;
}

std::string given_port(const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i].starts_with("--port=")) return command[i].substr(7);
    if (command[i] == "--port" && i + 1 < command.size()) return command[i + 1];
  }
  return {};
}

std::vector<std::string> step_command(const JobPlan& plan) {
  const auto& size = plan.size;
  // Steps that a person starts inside the session use the session's devices and cores.
  std::vector<std::string> words = {
      "srun", "--pty", "--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpu-bind=none"};
  // A shell keeps the job's numbers of tasks, since a person may start srun in it. A program gets the numbers of its
  // single task.
  if (plan.program.command.empty()) words.emplace_back("--preserve-env");
  if (size.cores_per_task > 0) words.push_back("--cpus-per-task=" + std::to_string(size.cores_per_task * size.tasks));
  if (!plan.devices_flag.empty()) words.push_back(plan.devices_flag);
  if (plan.exports_nothing) words.emplace_back("--export=NONE");
  // This is a login shell, since without exported variables only a login shell knows the command `module`.
  words.insert(words.end(), {"bash", "-l", session_path(plan).string()});
  return words;
}

void add_port(ScriptText& out, const JobPlan& plan, const std::string& port) {
  if (!port.empty()) {
    out.paragraph("The port that the program was given.");
    out.line("port=" + shell_quoted(port));
  } else {
    out.paragraph("A port that is free here.");
    out.line("port=$((20000 + SLURM_JOB_ID % 20000))");
    out.line("while (: < \"/dev/tcp/127.0.0.1/$port\") 2> /dev/null; do port=$((port + 1)); done");
  }
  out.line("export LOCKSTEP_PORT=$port");
  const auto tunnel = expand_template(plan.tunnel, {{"port", "$port"}, {"node", "$(hostname)"}, {"login", plan.login}});
  out.line("echo \"== job $SLURM_JOB_ID, on $SLURM_JOB_NODELIST for " + std::to_string(plan.queue.time->count() / 60) +
           " minutes\" >&2");
  out.line("echo \"== from your own machine, to port $port here: " + tunnel + "\" >&2");
  out.line("echo \"== then open http://localhost:$port\" >&2");
}

}  // namespace

std::optional<Server> server_of(const std::vector<std::string>& command) {
  const auto name = served_name(command);
  const auto known = std::ranges::find_if(kServers, [&](const auto& each) { return name.starts_with(each.name); });
  if (known == kServers.end()) return std::nullopt;
  Server server{.port = given_port(command), .flags = {}};
  for (const auto flag : known->flags) {
    const auto key = flag.substr(0, flag.find('='));
    const bool is_given = std::ranges::any_of(
        command, [&](const auto& word) { return word == key || word.starts_with(std::string(key) + "="); });
    if (!flag.empty() && !is_given) server.flags.emplace_back(flag);
  }
  return server;
}

std::filesystem::path session_path(const JobPlan& plan) { return plan.paths.run_dir / "session.sh"; }

std::vector<std::string> session_command(const JobPlan& plan) {
  std::vector<std::string> words = {"salloc"};
  for (const auto& part : {allocation_flags(plan), plan.sbatch, step_command(plan)}) {
    words.insert(words.end(), part.begin(), part.end());
  }
  return words;
}

std::string session_script(const JobPlan& plan) {
  ScriptText out;
  out.line("#!/bin/bash");
  out.line("# An interactive session on " + counted(plan.size.nodes, "node") + " of " + plan.cluster +
           ". Written by `lockstep submit`, which started it as:");
  out.line("# " + shell_quoted(session_command(plan)));
  out.line("");
  out.line("set -e");
  if (plan.exports_nothing) out.line("export SLURM_EXPORT_ENV=ALL");
  add_surroundings(out, plan);
  const bool is_shell = plan.program.command.empty();
  const auto server = server_of(plan.program.command);
  add_port(out, plan, server ? server->port : std::string());
  if (is_shell) {
    out.paragraph("Ranks are started from it by `srun lockstep exec -- PROGRAM`.");
    out.line(wrapped_alone(plan) + "bash -i");
    return std::move(out).take();
  }
  out.paragraph("One task with all devices and cores of this node, set up by `lockstep exec`.");
  std::string line = wrapped(plan, "") + shell_quoted(plan.program.command);
  for (const auto& flag : server ? server->flags : std::vector<std::string>{}) line += " " + flag;
  out.line(line);
  return std::move(out).take();
}

}  // namespace lockstep
