// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/launch/process.h"
#include "lockstep/recipe/builtin.h"
#include "lockstep/recipe/schema.h"

namespace lockstep::cli {
namespace {

/// A word that may come next on the command line, and its explanation.
struct Word {
  std::string text;  ///< "train", "--set", "bash"
  std::string about;
};

/// One command with the words that can follow it.
struct Level {
  std::string path;            ///< "" for the program, "/snapshot/verify" for a sub-command.
  std::vector<Word> commands;  ///< Sub-commands, and the choices of arguments.
  std::vector<Word> options;
  std::vector<std::string> flags;  ///< Options that take no value.
  std::string names;               ///< The kind of names of its argument, such as "runs". Empty for any other argument.
};

/// An argument or an option whose values are only known when the user types. `complete-names` lists those of `kind`.
struct NamedThing {
  std::string_view word;
  std::string_view kind;
};

constexpr auto kNamedThings = std::to_array<NamedThing>({{"RUN", "runs"},
                                                         {"RECIPE", "recipes"},
                                                         {"PROFILE", "clusters"},
                                                         {"--cluster", "clusters"},
                                                         {"--measured", "runs"},
                                                         {"--run", "runs"}});

/// Returns the kind of names for the name of an argument, such as "runs" for "RUN". Empty if the argument has no such
/// kind.
std::string kind_of(std::string_view word) {
  const auto* found = std::ranges::find(kNamedThings, word, &NamedThing::word);
  return found == kNamedThings.end() ? std::string() : std::string(found->kind);
}

/// Returns the allowed words of an argument, such as "bash", "fish" and "zsh". The parser's type of such an argument is
/// "TEXT:{bash,fish,zsh}".
std::vector<Word> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{');
  const auto close = type.find('}', open);
  std::vector<Word> choices;
  if (open == std::string::npos || close == std::string::npos) return choices;
  for (auto& name : split(std::string_view(type).substr(open + 1, close - open - 1), ',')) {
    choices.push_back({std::move(name), option.get_description()});
  }
  return choices;
}

void add_levels(const CLI::App& app, const std::string& path, std::vector<Level>& levels) {
  Level level{.path = path, .commands = {}, .options = {}, .flags = {}, .names = {}};
  const auto commands = app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); });
  for (const auto* command : commands) level.commands.push_back({command->get_name(), command->get_description()});
  for (const auto* option : app.get_options([](const CLI::Option* each) { return !each->get_group().empty(); })) {
    if (option->get_positional()) {
      for (auto& choice : choices_of(*option)) level.commands.push_back(std::move(choice));
      if (level.names.empty()) level.names = kind_of(option->get_name());
    }
    for (const auto& name : option->get_lnames()) {
      level.options.push_back({"--" + name, option->get_description()});
      if (option->get_items_expected_max() == 0) level.flags.push_back("--" + name);
    }
  }
  levels.push_back(std::move(level));
  for (const auto* command : commands) add_levels(*command, path + "/" + command->get_name(), levels);
}

std::vector<std::string> setting_keys() {
  std::vector<std::string> keys;
  for (const auto& row : schema()) {
    if (keys.empty() || keys.back() != row.key) keys.emplace_back(row.key);
  }
  return keys;
}

std::string replaced(std::string text, char what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, 1, with);
  }
  return text;
}

std::string texts(const std::vector<Word>& words) { return joined(map_each(words, &Word::text), " "); }

/// Returns the paths of all commands, such as "/train|/snapshot|/snapshot/verify".
std::string paths(const std::vector<Level>& levels, std::string_view separator) {
  std::vector<std::string> all;
  for (const auto& level : levels) {
    if (!level.path.empty()) all.push_back(level.path);
  }
  return joined(all, separator);
}

constexpr std::string_view kBash =
    R"bash(# bash completion for lockstep, made by `lockstep completion bash`. Try it with
#   source <(lockstep completion bash)
_lockstep() {
  local current="${COMP_WORDS[COMP_CWORD]}" command="" previous="" commands="" options="" names="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == = ]]; then continue; fi
    previous="${COMP_WORDS[i]}"
    if [[ $previous == -- ]]; then return; fi
    case "$command/$previous" in
      @PATHS@) command="$command/$previous" ;;
    esac
  done
  if [[ $current == = ]]; then current=""; fi
  if [[ $previous == --set ]]; then
    compopt -o nospace
    mapfile -t COMPREPLY < <(compgen -S = -W "@SETTINGS@" -- "$current")
    return
  fi
  case "$command" in
@LEVELS@  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  case "$previous" in
@VALUES@  esac
  if [[ -n $names ]]; then
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" complete-names "$names" 2> /dev/null | while IFS= read -r i; do
      if [[ $i == "$current"* ]]; then printf '%q\n' "$i"; fi
    done)
  else
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  fi
}
complete -o default -F _lockstep lockstep
)bash";

std::string bash_levels(const std::vector<Level>& levels) {
  std::string out;
  for (const auto& level : levels) {
    out += "    \"" + level.path + "\")\n      commands=\"" + texts(level.commands) + "\"\n      options=\"" +
           texts(level.options) + "\"\n      names=\"" + level.names + "\"\n      ;;\n";
  }
  return out;
}

/// Returns lines such as "    --cluster) names=clusters ;;", for bash and zsh.
std::string value_cases() {
  std::string out;
  for (const auto& [word, kind] : kNamedThings) {
    if (word.starts_with("--")) out += "    " + std::string(word) + ") names=" + std::string(kind) + " ;;\n";
  }
  return out;
}

constexpr std::string_view kZsh = R"zsh(#compdef lockstep
# zsh completion for lockstep, made by `lockstep completion zsh`. Keep it as _lockstep in a folder of $fpath, or
#   source <(lockstep completion zsh)
_lockstep() {
  local command="" previous="" names=""
  local -a commands options
  for previous in "${(@)words[2,CURRENT-1]}"; do
    if [[ $previous == -- ]]; then _files; return; fi
    case "$command/$previous" in
      @PATHS@) command="$command/$previous" ;;
    esac
  done
  if [[ $previous == --set && $PREFIX != *=* ]]; then
    compadd -S = -- @SETTINGS@
    return
  fi
  case "$command" in
@LEVELS@  esac
  if [[ $PREFIX == --*=* ]]; then
    previous="${PREFIX%%=*}"
    compset -P '*='
  elif [[ $PREFIX == -* ]]; then
    _describe -o option options
    return
  fi
  case "$previous" in
@VALUES@  esac
  if [[ -n $names ]]; then
    compadd -- ${(f)"$("${(Q)words[1]}" complete-names $names 2> /dev/null)"}
    [[ $names == clusters ]] || _files
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}
if [[ $funcstack[1] == _lockstep ]]; then _lockstep "$@"; else compdef _lockstep lockstep; fi
)zsh";

std::string zsh_words(const std::vector<Word>& words) {
  std::string out;
  for (const auto& word : words) {
    out += "\n        '" + replaced(word.text + ":" + replaced(word.about, ':', "\\:"), '\'', "'\\''") + "'";
  }
  return out;
}

std::string zsh_levels(const std::vector<Level>& levels) {
  std::string out;
  for (const auto& level : levels) {
    out += "    '" + level.path + "')\n      commands=(" + zsh_words(level.commands) + ")\n      options=(" +
           zsh_words(level.options) + ")\n      names='" + level.names + "'\n      ;;\n";
  }
  return out;
}

constexpr std::string_view kFish = R"(# fish completion for lockstep, made by `lockstep completion fish`. Keep it as
# ~/.config/fish/completions/lockstep.fish, or try it with
#   lockstep completion fish | source
function __lockstep_at
    set -l command ""
    set -l previous ""
    for word in (commandline -opc)[2..-1]
        set previous $word
        switch "$command/$word"
            case @PATHS@
                set command "$command/$word"
        end
    end
    test "$command" = "$argv[1]"
end
function __lockstep_names
    set -l program (commandline -opc)[1]
    $program complete-names $argv[1] 2>/dev/null
end
@LEVELS@)";

std::string fish_text(const std::string& text) {
  return "'" + replaced(replaced(text, '\\', "\\\\"), '\'', "\\'") + "'";
}

std::string fish_levels(const std::vector<Level>& levels) {
  std::string out;
  for (const auto& level : levels) {
    const std::string head = "complete -c lockstep -n '__lockstep_at \"" + level.path + "\"' ";
    for (const auto& word : level.commands) {
      out += head + "-f -a " + fish_text(word.text) + " -d " + fish_text(word.about) + "\n";
    }
    if (!level.names.empty()) out += head + "-a '(__lockstep_names " + level.names + ")'\n";
    for (const auto& word : level.options) {
      const auto kind = kind_of(word.text);
      const bool is_flag = std::find(level.flags.begin(), level.flags.end(), word.text) != level.flags.end();
      const std::string value = is_flag                ? ""
                                : word.text == "--set" ? "-x -a '" + joined(setting_keys(), "= ") + "=' "
                                : !kind.empty()        ? "-x -a '(__lockstep_names " + kind + ")' "
                                                       : "-r ";
      out += head + "-l " + word.text.substr(2) + " " + value + "-d " + fish_text(word.about) + "\n";
    }
  }
  return out;
}

std::string filled(std::string_view script, std::string_view mark, const std::string& text) {
  std::string out(script);
  out.replace(out.find(mark), mark.size(), text);
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::vector<Level> levels;
  add_levels(app, "", levels);
  if (shell == "fish") return filled(filled(kFish, "@PATHS@", paths(levels, " ")), "@LEVELS@", fish_levels(levels));
  if (shell != "bash" && shell != "zsh") {
    throw Error(ErrorKind::kUsage, "no completion for the shell '" + shell + "', want bash, zsh or fish",
                "for example `source <(lockstep completion bash)`");
  }
  const bool is_bash = shell == "bash";
  auto script = filled(is_bash ? kBash : kZsh, "@PATHS@", paths(levels, "|"));
  script = filled(script, "@VALUES@", value_cases());
  return filled(filled(script, "@SETTINGS@", joined(setting_keys(), " ")), "@LEVELS@",
                is_bash ? bash_levels(levels) : zsh_levels(levels));
}

namespace {

/// Prints one name per line. Runs are found by their folders only, since asking Slurm would keep the user of the shell
/// waiting.
void print_names(const std::string& kind, const Environment& env) {
  std::vector<std::string> names;
  if (kind == "clusters") {
    names = ProfileLibrary(env).names();
    names.emplace_back("auto");
  } else if (kind == "recipes") {
    names = map_each(builtin_recipes(this_program()), &BuiltinRecipe::name);
  } else {
    for (const auto& run : run_jobs(run_places(env))) names.push_back(run.path.filename().string());
  }
  for (const auto& name : names) print_text(name + "\n");
}

}  // namespace

void add_completion(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("completion", "Print the completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&app, shell] { print_text(completion_script(app, *shell)); });

  auto* names = app.add_subcommand("complete-names", "List what the completion script offers")->group("");
  const auto kind = std::make_shared<std::string>();
  names->add_option("KIND", *kind, "Of what")->required()->check(CLI::IsMember({"clusters", "recipes", "runs"}));
  names->callback([&context, kind] { print_names(*kind, context.env); });
}

}  // namespace lockstep::cli
