// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/script_facts.h"

#include <algorithm>
#include <array>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

class Follower {
 public:
  Follower(ScriptFacts& into, const ShellVariables& inherited) : into_(into) { into_.variables = inherited; }

  void follow(const ShellCommand& command) {
    for (const auto& word : command.words) note_names(word);
    for (const auto& word : command.assignments) note_names(word);
    if (command.words.empty()) {
      for (const auto& word : command.assignments) assign(word, command, false);
      return;
    }
    const auto name = shell_value(command.words.front(), into_.variables);
    if (command.block == ShellBlock::kFunction) return skip_function(command, name.text);
    if (take_builtin(command, name.text) || take_activation(command, name.text)) return;
    if (auto launch = read_launch(command, into_.variables)) return take_launch(std::move(*launch), command);
    if (name.text == "cd") into_.folders.push_back(command);
    if (name.text == "rm") into_.removals.push_back(command);
    if (!name.is_known) unread(command, "the command is known only when the script runs");
  }

 private:
  void note_names(std::string_view raw) {
    for (auto& name : names_in(raw)) into_.used_names.push_back(std::move(name));
  }

  void unread(const ShellCommand& command, std::string reason) {
    into_.unread.push_back({command.line, joined(command.words, " "), std::move(reason)});
  }

  void skip_function(const ShellCommand& command, const std::string& name) {
    if (name == "srun" || name == "mpirun" || name == "torchrun") unread(command, "it is inside a function");
  }

  void take_launch(LaunchLine launch, const ShellCommand& command) {
    for (const auto& word : launch.variables) note_setting(word, command);
    into_.launches.push_back(std::move(launch));
  }

  /// The assignment applies to one command only, as in `NAME=value command`.
  void note_setting(const std::string& word, const ShellCommand& command) {
    const auto name = assigned_name(word);
    const auto raw = word.substr(word.find('=') + 1);
    into_.settings.push_back({name, raw, shell_value(raw, into_.variables), command.line, command.block, true});
  }

  void assign(const std::string& word, const ShellCommand& command, bool is_export) {
    const auto name = assigned_name(word);
    if (name.empty()) return;
    const auto raw = word.substr(word.find('=') + 1);
    auto value = shell_value(raw, into_.variables);
    if (command.is_subshell) return;
    auto& variable = into_.variables[name];
    if (word[name.size()] == '+') value = {variable.value.text + value.text, variable.value.is_known && value.is_known};
    if (raw.starts_with('(')) value.is_known = false;
    into_.settings.push_back({name, raw, value, command.line, command.block});
    if (command.block != ShellBlock::kNone) value.is_known = false;
    variable.value = std::move(value);
    // If the value is not certain, the variable is not replaced by it.
    if (!variable.value.is_known && command.block != ShellBlock::kNone) variable.value.text = "$" + name;
    variable.line = command.line;
    variable.is_exported = variable.is_exported || is_export || exports_all_;
  }

  void forget(const std::string& name, int line) {
    into_.variables[name] = {{"$" + name, false}, into_.variables[name].is_exported, line};
  }

  bool take_builtin(const ShellCommand& command, const std::string& name) {
    const auto& words = command.words;
    if (name == "export" || name == "declare" || name == "typeset" || name == "readonly") {
      const bool is_export = name == "export" ||
                             (words.size() > 1 && words[1].starts_with('-') && words[1].find('x') != std::string::npos);
      for (std::size_t i = 1; i < words.size(); ++i) export_word(words[i], command, is_export);
      return true;
    }
    if (name == "unset") {
      for (std::size_t i = 1; i < words.size(); ++i) into_.variables.erase(words[i]);
      std::erase_if(into_.settings,
                    [&](const auto& each) { return std::ranges::find(words, each.name) != words.end(); });
      for (const auto& word : words) {
        if (word == "SLURM_EXPORT_ENV") into_.settings.push_back({word, "", {}, command.line, command.block});
      }
      return true;
    }
    if (name == "set") {
      const auto has = [&](const char* word) { return std::ranges::find(words, word) != words.end(); };
      const bool is_long = has("allexport");
      if (has("-a") || (is_long && has("-o"))) exports_all_ = true;
      if (has("+a") || (is_long && has("+o"))) exports_all_ = false;
      return true;
    }
    if (name == "for" || name == "select" || name == "read") {
      for (std::size_t i = 1; i < words.size() && words[i] != "in"; ++i) {
        if (!words[i].starts_with('-')) forget(words[i], command.line);
      }
      return true;
    }
    into_.waits = into_.waits || name == "wait";
    if (name != "eval") return name == "case";
    unread(command, "eval runs text that is known only when the script runs");
    return true;
  }

  void export_word(const std::string& word, const ShellCommand& command, bool is_export) {
    if (word.starts_with('-')) return;
    if (!assigned_name(word).empty()) return assign(word, command, is_export);
    const auto found = into_.variables.find(word);
    if (found != into_.variables.end() && is_export) found->second.is_exported = true;
  }

  bool take_activation(const ShellCommand& command, const std::string& name) {
    const auto& words = command.words;
    const auto second = words.size() > 1 ? words[1] : std::string();
    std::string kind;
    if (name == "module" || name == "ml") kind = "module";
    if (name == "source" || name == ".") kind = "source";
    const bool is_conda = name == "conda" || name == "mamba" || name == "micromamba";
    if (is_conda && second == "activate") kind = "conda";
    if (name == "source" && second == "activate") kind = "conda";  // conda before 4.4
    if (kind.empty()) return false;
    into_.activations.push_back({kind, joined(words, " "), {}, command.line});
    for (const auto& word : words) into_.activations.back().words.push_back(shell_value(word, into_.variables).text);
    return true;
  }

  ScriptFacts& into_;
  bool exports_all_ = false;
};

}  // namespace

const ScriptSetting* ScriptFacts::exported(std::string_view name) const {
  const auto variable = variables.find(name);
  const bool is_exported = variable != variables.end() && variable->second.is_exported;
  const auto found = std::find_if(settings.rbegin(), settings.rend(), [&](const auto& each) {
    return each.name == name && (is_exported || each.is_for_one_command);
  });
  return found == settings.rend() ? nullptr : &*found;
}

ScriptFacts read_script_facts(std::string_view text, const ShellVariables& inherited) {
  ScriptFacts facts;
  const auto shell = read_shell(text);
  Follower follower(facts, inherited);
  for (const auto& command : shell.commands) follower.follow(command);
  for (const auto& body : shell.here_documents) {
    for (auto& name : names_in(body)) facts.used_names.push_back(std::move(name));
  }
  if (shell.broken_line > 0) {
    facts.unread.push_back({shell.broken_line, {}, "a quote or bracket that opens here never closes"});
  }
  return facts;
}

}  // namespace lockstep
