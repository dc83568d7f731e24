// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/nested_launcher.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

namespace lockstep {
namespace {

/// A launcher's own options end where its program begins. Most take a value, in the same word or in the next.
struct Launcher {
  std::string_view name;
  std::string_view flags;  ///< Options without a value, with spaces around each.
  bool runs_scripts;       ///< It is given a Python file, not a program.
};

constexpr std::string_view kTorchFlags =
    " --standalone --no-python --no_python --run-path --run_path --module -m --monitor-interval-off ";
constexpr auto kLaunchers = std::to_array<Launcher>({
    {"torchrun", kTorchFlags, true},
    {"torch.distributed.run", kTorchFlags, true},
    {"torch.distributed.launch", " --use_env --use-env --standalone --module -m --no_python --no-python ", true},
    {"accelerate", " --multi_gpu --cpu --use_deepspeed --use_fsdp --same_network --quiet -q --no_python ", true},
    {"deepspeed", " --force_multi --no_python --module --no_local_rank --no_ssh_check ", true},
    {"horovodrun", " --verbose --disable-cache --gloo --mpi ", false},
    {"mpirun", " --oversubscribe --bind-to-none --allow-run-as-root --tag-output ", false},
    {"mpiexec", " --oversubscribe --allow-run-as-root ", false},
    {"srun", " -l --label -u --unbuffered --exclusive --overlap -O --overcommit -v --verbose ", false},
});

bool is_python(std::string_view word) { return std::filesystem::path(word).filename().string().starts_with("python"); }

const Launcher* launcher_of(std::string_view name) {
  const auto found = std::ranges::find(kLaunchers, name, &Launcher::name);
  return found == kLaunchers.end() ? nullptr : &*found;
}

bool is_flag(const Launcher& launcher, const std::string& word) {
  return launcher.flags.find(" " + word + " ") != std::string_view::npos || word.find('=') != std::string::npos;
}

}  // namespace

std::optional<NestedLauncher> nested_launcher(const std::vector<std::string>& command) {
  if (command.empty()) return std::nullopt;
  std::string python = "python";
  std::size_t at = 1;
  const Launcher* launcher = launcher_of(std::filesystem::path(command[0]).filename().string());
  if (is_python(command[0]) && command.size() > 2 && command[1] == "-m") {
    python = command[0];
    launcher = launcher_of(command[2]);
    at = 3;
  }
  if (launcher == nullptr) return std::nullopt;
  if (launcher->name == "accelerate") {
    if (command.size() < 2 || command[1] != "launch") return std::nullopt;
    at = 2;
  }
  bool is_module = false;
  while (at < command.size() && command[at].starts_with('-')) {
    is_module = is_module || command[at] == "-m" || command[at] == "--module";
    at += is_flag(*launcher, command[at]) ? 1 : 2;
  }
  NestedLauncher found{.name = std::string(launcher->name), .launched = {}};
  if (at < command.size() && launcher->runs_scripts) found.launched.push_back(python);
  if (is_module) found.launched.emplace_back("-m");
  for (; at < command.size(); ++at) found.launched.push_back(command[at]);
  return found;
}

}  // namespace lockstep
