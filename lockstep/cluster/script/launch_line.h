// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/script/shell_reader.h"
#include "lockstep/cluster/script/shell_value.h"
#include "lockstep/cluster/script/slurm_options.h"

namespace lockstep {

/// A word of a command: as it is written in the script, and as the shell passes it to the program.
struct LaunchWord {
  std::string raw{};
  ShellValue value{};
};

/// torchrun, accelerate or deepspeed, which start ranks on a node.
struct NodeLauncher {
  std::string name{};                                      ///< "torchrun", "accelerate", "deepspeed" or "lockstep".
  std::map<std::string, LaunchWord, std::less<>> flags{};  ///< "nproc-per-node", dashes for underscores.
};

struct LaunchContainer {
  std::string runtime{};
  std::string image{};
  std::vector<std::string> binds{};
};

/// A command that starts the user's program. It is taken apart from the outside to the inside: srun, container,
/// torchrun, program.
struct LaunchLine {
  int line = 0;
  ShellBlock block = ShellBlock::kNone;
  bool is_background = false;
  std::string launcher{};  ///< "srun", "mpirun", or empty if the batch script starts the program itself.
  SlurmOptions srun{};     ///< The options of srun.
  std::optional<int> mpirun_tasks{};
  std::vector<std::string> variables{};  ///< "NAME=value" before the command or behind `env`, with quotes.
  LaunchContainer container{};
  std::optional<NodeLauncher> node_launcher{};
  std::vector<LaunchWord> words{};    ///< The whole command.
  std::vector<LaunchWord> program{};  ///< The command of each task, without launcher and container.

  /// Returns the file name of the program's first word, such as "python" or "a.out".
  std::string program_name() const;
  /// True if the program is a Python script, or a module other than a launcher.
  bool is_python() const;
  /// True if the program is a utility that only shows something or cleans up, such as hostname and nvidia-smi.
  bool is_utility() const;
  /// Returns the text behind `bash -c`, or nothing.
  std::optional<LaunchWord> shell_text() const;
  /// Returns the path of the shell script that the tasks run, or nothing.
  std::optional<std::string> shell_script() const;
};

/// Parses a command if it starts a program, by srun, mpirun, torchrun and the like, in a container, or as `python
/// FILE`. Returns nothing for other commands.
std::optional<LaunchLine> read_launch(const ShellCommand& command, const ShellVariables& variables);

}  // namespace lockstep
