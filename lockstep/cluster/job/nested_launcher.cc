// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/nested_launcher.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "lockstep/launch/launcher_flags.h"

namespace lockstep {
namespace {

/// The options of a launcher end at the program that it starts. Most options take a value, in the same word or in the
/// next word.
struct Launcher {
  std::string_view name;
  std::string_view flags;  ///< Options without a value, with spaces around each.
  bool runs_scripts;       ///< It is given a Python file, not a program.
};

constexpr auto kLaunchers = std::to_array<Launcher>({
    {"torchrun", "", true},
    {"torch.distributed.run", "", true},
    {"torch.distributed.launch", "", true},
    {"accelerate", "", true},
    {"accelerate-launch", "", true},
    {"accelerate.commands.launch", "", true},
    {"deepspeed", "", true},
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

/// Returns the index of the program that the launcher starts.
std::size_t program_begin(const Launcher& launcher, const std::vector<std::string>& command, std::size_t at) {
  if (launcher.runs_scripts) return launcher_options_end(command, at);
  while (at < command.size() && command[at].starts_with('-')) {
    const bool is_flag = launcher.flags.find(" " + command[at] + " ") != std::string_view::npos;
    at += is_flag || command[at].find('=') != std::string::npos ? 1 : 2;
  }
  return std::min(at, command.size());
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
  const auto begin = program_begin(*launcher, command, at);
  const auto is_module = std::any_of(command.begin() + static_cast<std::ptrdiff_t>(at),
                                     command.begin() + static_cast<std::ptrdiff_t>(begin),
                                     [](const auto& word) { return word == "-m" || word == "--module"; });
  NestedLauncher found{.name = std::string(launcher->name), .launched = {}};
  if (begin < command.size() && launcher->runs_scripts) found.launched.push_back(python);
  if (is_module) found.launched.emplace_back("-m");
  found.launched.insert(found.launched.end(), command.begin() + static_cast<std::ptrdiff_t>(begin), command.end());
  return found;
}

}  // namespace lockstep
