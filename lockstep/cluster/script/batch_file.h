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

/// An assignment of a variable in the script.
struct ScriptSetting {
  std::string name{};
  std::string raw{};  ///< The value with its quotes.
  ShellValue value{};
  int line = 0;
  ShellBlock block = ShellBlock::kNone;
  bool is_for_one_command = false;  ///< True for `NAME=value srun …`, which only that command sees.
};

/// A line that makes software available, such as `module load`, `source` or `conda activate`.
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
  std::string file{};  ///< Empty for the batch script itself, else the script that each task runs.
  std::vector<ScriptSetting> settings{};
  ShellVariables variables{};  ///< As they are at the end.
  std::vector<ScriptActivation> activations{};
  std::vector<LaunchLine> launches{};
  std::vector<ShellCommand> folders{};   ///< Commands that begin with `cd`.
  std::vector<ShellCommand> removals{};  ///< Commands that begin with `rm`.
  std::vector<UnreadLine> unread{};
  std::vector<std::string> used_names{};  ///< Names behind `$` anywhere.
  bool waits = false;                     ///< True if `wait` stands somewhere.

  /// Returns the last assignment of the variable `name` that programs see, or null.
  const ScriptSetting* exported(std::string_view name) const;
};

/// A batch script as text, with its requests and its commands.
struct BatchFile {
  std::string name{};                ///< As the user typed it.
  std::vector<std::string> lines{};  ///< Without their ends.
  SlurmOptions options{};            ///< Of the #SBATCH lines that sbatch reads.
  std::vector<int> late_lines{};     ///< #SBATCH lines below the first command, which sbatch ignores.
  std::vector<int> missed_lines{};   ///< Lines that look like #SBATCH lines, but are comments.
  bool has_interpreter = false;      ///< The first line begins with #!.
  bool has_dos_ends = false;
  ScriptFacts batch{};
  std::vector<ScriptFacts> task_scripts{};   ///< Shell scripts that the tasks run, if they could be read.
  std::vector<UnreadLine> unread_scripts{};  ///< Scripts that could not be read. `line` is the line that starts them.

  SlurmShape shape() const { return slurm_shape(options); }
  /// Returns the launch line that runs the user's program: the last one whose program is not a utility such as
  /// hostname. Null if there is none.
  const LaunchLine* main_launch() const;
  /// Returns the last assignment of a variable that a task of the program sees, or null.
  const ScriptSetting* task_setting(std::string_view variable) const;
};

/// Returns the content of a file, or nothing if it cannot be read.
using ScriptReader = std::function<std::optional<std::string>(const std::filesystem::path&)>;

/// Reads a batch script, and the shell scripts that its tasks run as far as `read` finds them. No command of a script
/// is run.
BatchFile read_batch_file(std::string file_name, std::string_view text, const ScriptReader& read);

}  // namespace lockstep
