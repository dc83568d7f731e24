// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/script/launch_line.h"
#include "lockstep/cluster/script/shell_value.h"
#include "lockstep/cluster/script/slurm_options.h"
#include "lockstep/cluster/script/slurm_values.h"

namespace lockstep {

/// A variable where the script assigns it.
struct ScriptSetting {
  std::string name{};
  std::string raw{};  ///< The value with its quotes.
  ShellValue value{};
  int line = 0;
  ShellBlock block = ShellBlock::kNone;
  bool is_for_one_command = false;  ///< True for `NAME=value srun …`: that command sees it, and nothing else.
};

/// A line that makes software available: `module load`, `source`, `conda activate`.
struct ScriptActivation {
  std::string kind{};  ///< "module", "source" or "conda".
  std::string text{};  ///< The command as one line.
  std::vector<std::string> words{};
  int line = 0;
};

/// A line that was not understood, and why.
struct UnreadLine {
  int line = 0;
  std::string text{};
  std::string reason{};
};

/// The commands of a shell script, as far as they can be understood without running it.
struct ScriptFacts {
  std::string file{};  ///< Empty for the batch script itself; else the script that each task runs.
  std::vector<ScriptSetting> settings{};
  ShellVariables variables{};  ///< As they are at the end.
  std::vector<ScriptActivation> activations{};
  std::vector<LaunchLine> launches{};
  std::vector<ShellCommand> folders{};   ///< Commands that begin with `cd`.
  std::vector<ShellCommand> removals{};  ///< Commands that begin with `rm`.
  std::vector<UnreadLine> unread{};
  std::vector<std::string> used_names{};  ///< Names behind `$` anywhere.
  bool waits = false;                     ///< True if `wait` stands somewhere.

  /// Returns the last assignment of `name` that programs see, or null.
  const ScriptSetting* exported(std::string_view name) const;
};

/// A batch script as text: what it asks for, and what it does.
struct BatchFile {
  std::string name{};                ///< As the user typed it.
  std::vector<std::string> lines{};  ///< Without their ends.
  SlurmOptions options{};            ///< Of the #SBATCH lines that sbatch reads.
  std::vector<int> late_lines{};     ///< #SBATCH lines below the first command: sbatch ignores them.
  std::vector<int> missed_lines{};   ///< Lines that look like #SBATCH lines, but are comments.
  bool has_interpreter = false;      ///< The first line begins with #!.
  bool has_dos_ends = false;
  ScriptFacts batch{};
  std::vector<ScriptFacts> task_scripts{};   ///< Shell scripts that the tasks run, if they could be read.
  std::vector<UnreadLine> unread_scripts{};  ///< Those that could not; `line` is where they are started.

  SlurmShape shape() const { return slurm_shape(options); }
  /// Returns the launch line that runs the user's program: the last one that is no utility, or null.
  const LaunchLine* main_launch() const;
  /// Returns the assignment that a task of the program sees last, or null.
  const ScriptSetting* task_setting(std::string_view variable) const;
};

/// Returns the content of a file, or nothing if it cannot be read.
using ScriptReader = std::function<std::optional<std::string>(const std::filesystem::path&)>;

/// Reads a batch script, and the shell scripts that its tasks run as far as `read` finds them. It runs nothing.
BatchFile read_batch_file(std::string file_name, std::string_view text, const ScriptReader& read);

}  // namespace lockstep
