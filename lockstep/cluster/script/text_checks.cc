// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/text_checks.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void check_form(const ScriptContext& of, ScriptFindings& findings) {
  const auto& file = of.file;
  if (!file.has_interpreter) {
    findings.push_back({"script-no-interpreter",
                        Severity::kError,
                        1,
                        {},
                        "the first line does not begin with #!, and sbatch refuses such a script",
                        "make '#!/bin/bash' the first line"});
  }
  if (file.has_dos_ends) {
    findings.push_back({"script-dos-lines",
                        Severity::kError,
                        1,
                        {},
                        "lines end in CR LF, as Windows writes them, and sbatch refuses such a script",
                        "dos2unix " + file.name});
  }
  for (const int line : file.late_lines) {
    findings.push_back({"script-late-option",
                        Severity::kError,
                        line,
                        {},
                        "sbatch stops reading #SBATCH lines at the first command, and ignores '" +
                            file.lines[static_cast<std::size_t>(line) - 1] + "'",
                        "move the line above the first command"});
  }
  for (const int line : file.missed_lines) {
    findings.push_back({"script-missed-option",
                        Severity::kWarning,
                        line,
                        {},
                        "'" + file.lines[static_cast<std::size_t>(line) - 1] +
                            "' is a comment for sbatch, which wants '#SBATCH' in capitals at the line's start",
                        "write '#SBATCH' if the option is meant, '##SBATCH' if not"});
  }
}

void check_option_words(const ScriptContext& of, ScriptFindings& findings) {
  for (const auto& unknown : of.file.options.unknown) {
    const auto hint = unknown.nearest.empty() ? "see `man sbatch`; a dash must be the plain '-'"
                                              : "did you mean --" + unknown.nearest + "?";
    findings.push_back({"script-unknown-option",
                        Severity::kError,
                        unknown.line,
                        {},
                        "'" + unknown.word + "' is no option of sbatch",
                        hint});
  }
  for (const auto& option : of.file.options.list) {
    const auto shown = "--" + option.name + "=" + option.value;
    if (option.name != "wrap" && option.value.find('$') != std::string::npos) {
      findings.push_back({"script-variable-in-option",
                          Severity::kError,
                          option.line,
                          {},
                          "sbatch does not expand variables: '" + shown + "' is taken as it stands",
                          "write the value; file names may use %j (job), %x (name), %u (user)"});
    }
    const auto open = option.value.find('<');
    if (open != std::string::npos && option.value.find('>', open) != std::string::npos) {
      findings.push_back({"script-placeholder",
                          Severity::kError,
                          option.line,
                          {},
                          "'" + shown + "' still holds a placeholder",
                          "put your own value in its place"});
    }
  }
}

/// Slurm opens the output file before the first line of the script runs. So a mkdir in the script comes too late.
void check_output_folders(const ScriptContext& of, ScriptFindings& findings) {
  if (!of.is_here || !of.is_folder) return;
  for (const auto* name : {"output", "error"}) {
    const auto* option = of.file.options.find(name);
    if (option == nullptr) continue;
    const auto folder = fs::path(option->value).parent_path();
    const bool is_open = folder.string().find_first_of("%$<") != std::string::npos;
    if (folder.empty() || is_open || of.is_folder(folder)) continue;
    findings.push_back({"script-output-folder",
                        Severity::kError,
                        option->line,
                        {},
                        "there is no folder '" + folder.string() + "' for --" + name +
                            ": Slurm opens the file before the script runs, and the job ends without a word",
                        "mkdir -p " + folder.string() + ", before sbatch"});
  }
}

void check_array_output(const ScriptContext& of, ScriptFindings& findings) {
  const auto* array = of.file.options.find("array");
  const auto* output = of.file.options.find("output");
  if (array == nullptr || output == nullptr) return;
  for (const auto* part : {"%a", "%j"}) {
    if (output->value.find(part) != std::string::npos) return;
  }
  if (output->value == "/dev/null") return;
  findings.push_back({"script-array-output",
                      Severity::kWarning,
                      output->line,
                      {},
                      "all jobs of the array write to '" + output->value + "'",
                      "--output=" + of.file.name + "-%A_%a.out"});
}

void note_unread(const ScriptContext& of, const ScriptFacts& facts, ScriptFindings& findings) {
  for (const auto& unread : facts.unread) {
    const auto text = unread.text.empty() ? "this line" : "'" + unread.text.substr(0, 60) + "'";
    findings.push_back({"script-not-understood", Severity::kNote, unread.line, facts.file,
                        text + " was not looked at: " + unread.reason, "check it by hand"});
  }
  for (const auto& launch : facts.launches) {
    if (launch.block == ShellBlock::kNone || launch.is_utility()) continue;
    const bool is_loop = launch.block == ShellBlock::kLoop;
    findings.push_back({"script-not-understood", Severity::kNote, launch.line, facts.file,
                        std::string("'") + launch.words.front().raw + " …' stands in a " +
                            (is_loop ? "loop: how often it runs, and with what values, is not known"
                                     : "condition: whether it runs is not known"),
                        is_loop && of.file.batch.launches.size() == 1
                            ? "`lockstep submit --sweep` makes a job of each value"
                            : "check it by hand"});
  }
}

}  // namespace

void check_script_text(const ScriptContext& of, ScriptFindings& findings) {
  check_form(of, findings);
  check_option_words(of, findings);
  check_output_folders(of, findings);
  check_array_output(of, findings);
  note_unread(of, of.file.batch, findings);
  for (const auto& facts : of.file.task_scripts) note_unread(of, facts, findings);
  for (const auto& script : of.file.unread_scripts) {
    findings.push_back({"script-not-understood",
                        Severity::kNote,
                        script.line,
                        {},
                        "'" + script.text + "', which each task runs, was not looked at: " + script.reason,
                        "variables, caches and Python in it: check them by hand, or run doctor where the file is"});
  }
}

}  // namespace lockstep
