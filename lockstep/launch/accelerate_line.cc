// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/accelerate_line.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/launch/launcher_flags.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;
/// Maps an option's name to the index of the word that holds its value.
using Options = std::map<std::string, std::size_t>;

/// Returns where the options of `accelerate launch` begin, also after set-up commands or a container's words.
std::optional<std::size_t> options_begin(const Words& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    const auto name = std::filesystem::path(command[i]).filename().string();
    if (name == "accelerate-launch" || command[i] == "accelerate.commands.launch") return i + 1;
    if (name == "accelerate" && i + 1 < command.size() && command[i + 1] == "launch") return i + 2;
  }
  return std::nullopt;
}

Options options_in(const Words& command, std::size_t begin, std::size_t end) {
  Options options;
  for (std::size_t i = begin; i < end; ++i) {
    const auto name = launcher_option(command[i]);
    const bool has_next = command[i].find('=') == std::string::npos && !is_bare_launcher_option(name);
    options[name] = has_next ? ++i : i;
  }
  return options;
}

bool has_any(const Options& options, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&options](const char* name) { return options.contains(name); });
}

/// Returns the number of processes on all nodes, if each node starts `own` processes.
int all_processes(int own, const AccelerateNode& at) {
  const bool is_all = own > at.devices && own == at.devices * at.nodes;
  return is_all ? own : own * at.nodes;
}

/// Changes `command` so that its number of processes is that of all nodes. The number comes from its option, or from
/// the number of devices. Returns the options that must be added.
Words told_of_all(Words& command, const Options& options, const AccelerateNode& at) {
  Words added;
  int own = at.devices;
  if (const auto given = options.find("num-processes"); given != options.end()) {
    auto& word = command[given->second];
    const auto equals = word.find('=');
    const auto value = equals == std::string::npos ? 0 : equals + 1;
    own = parsed_int<int>(word.substr(value)).value_or(0);
    if (own > 0) word = word.substr(0, value) + std::to_string(all_processes(own, at));
  } else if (own > 0) {
    added.push_back("--num_processes=" + std::to_string(all_processes(own, at)));
  }
  if (own < 1) return {};
  added.push_back("--num_machines=" + std::to_string(at.nodes));
  // With one device on each node, Accelerate would not choose a multi-GPU launch by itself.
  if (!has_any(options, {"multi-gpu", "use-fsdp", "use-megatron-lm"})) added.emplace_back("--multi_gpu");
  return added;
}

}  // namespace

bool has_accelerate_config(const Environment& env) {
  const auto caches = env.get("XDG_CACHE_HOME").value_or(env.get("HOME").value_or("") + "/.cache");
  const std::filesystem::path home = env.get("HF_HOME").value_or(caches + "/huggingface");
  std::error_code none;
  return std::filesystem::exists(home / "accelerate/default_config.yaml", none) ||
         std::filesystem::exists(home / "accelerate/default_config.json", none);
}

Words with_accelerate_nodes(Words command, const AccelerateNode& at) {
  const auto begin = options_begin(command);
  if (!begin || at.nodes < 2) return command;
  const auto options = options_in(command, *begin, launcher_options_end(command, *begin));
  if (has_any(options, {"num-machines", "cpu", "tpu"})) return command;

  Words added;
  // If DeepSpeed's launcher knew the other machines, it would start their ranks by ssh.
  if (!has_any(options, {"use-deepspeed"})) {
    if (!at.has_config && !has_any(options, {"config-file"})) added = told_of_all(command, options, at);
    if (!has_any(options, {"machine-rank"})) added.push_back("--machine_rank=" + std::to_string(at.node));
    if (!has_any(options, {"main-process-ip"})) added.push_back("--main_process_ip=" + at.master.address);
  }
  if (!has_any(options, {"main-process-port"})) {
    added.push_back("--main_process_port=" + std::to_string(at.master.port));
  }
  command.insert(command.begin() + static_cast<std::ptrdiff_t>(*begin), added.begin(), added.end());
  return command;
}

}  // namespace lockstep
