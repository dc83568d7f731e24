// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One flag of sbatch or srun under its long name, also if the script has its short form.
struct SlurmOption {
  std::string name{};  ///< "nodes", without dashes. "ntasks-per-node" also for --tasks-per-node.
  std::string value{};
  int line = 0;
};

/// A word that is not an option, and the nearest option if there is one.
struct UnknownOption {
  std::string word{};
  std::string nearest{};
  int line = 0;
};

/// Options in the order of the script. A later one overrides an earlier one of the same name.
struct SlurmOptions {
  std::vector<SlurmOption> list{};
  std::vector<UnknownOption> unknown{};

  /// Returns the last option of that name, or null.
  const SlurmOption* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Returns the value of the last option of that name. Empty if there is none.
  std::string value(std::string_view name) const;
};

/// Parses words as sbatch and srun do, with `-N 2`, `-N2`, `--nodes=2`, `--nodes 2`, unique beginnings of long names,
/// and short flags together. Returns how many words were options or their values. The rest is the program.
///
/// Source: getopt_long(3); the options are those of sbatch(1) and srun(1) from Slurm 22.05 to 25.11.
std::size_t read_slurm_options(std::span<const std::string> words, int line, SlurmOptions& into);

/// Splits the text after #SBATCH into words as sbatch does. Quotes join words, and a `#` at the start of a word ends
/// the line.
std::vector<std::string> sbatch_words(std::string_view text);

}  // namespace lockstep
