// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/batch_file.h"

#include <algorithm>
#include <cctype>

#include "lockstep/base/text.h"
#include "lockstep/cluster/script/script_facts.h"

namespace lockstep {
namespace {

constexpr std::string_view kMark = "#SBATCH";

bool looks_like_mark(std::string_view line) {
  const auto text = trimmed(line);
  if (!text.starts_with('#')) return false;
  const auto word = trimmed(text.substr(1));
  const auto begin = word.substr(0, 6);
  const bool is_sbatch = begin.size() == 6 && std::ranges::equal(begin, std::string_view("sbatch"), {},
                                                                 [](unsigned char c) { return std::tolower(c); });
  // "# SBATCH --nodes" is probably a flag with a typing error, and is reported. "# sbatch job.sh" is a comment for a
  // reader.
  return is_sbatch && trimmed(word.substr(6)).starts_with('-');
}

void read_directives(BatchFile& file) {
  bool is_head = true;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string_view line = file.lines[i];
    const int number = static_cast<int>(i) + 1;
    if (line.starts_with(kMark) &&
        (line.size() == kMark.size() || line[kMark.size()] == ' ' || line[kMark.size()] == '\t')) {
      if (!is_head) {
        file.late_lines.push_back(number);
        continue;
      }
      const auto words = sbatch_words(line.substr(kMark.size()));
      const auto read = read_slurm_options(words, number, file.options);
      if (read < words.size()) file.options.unknown.push_back({words[read], {}, number});
    } else if (looks_like_mark(line)) {
      file.missed_lines.push_back(number);
    }
    const auto text = trimmed(line);
    if (!text.empty() && !text.starts_with('#')) is_head = false;
  }
}

/// Returns the path on the node for a path inside a container. Outside of a container it is the path itself.
std::string outside(const std::string& path, const std::vector<std::string>& binds) {
  for (const auto& bind : binds) {
    const auto parts = split(bind, ':');
    if (parts.size() < 2 || parts[1].empty()) continue;
    if (path == parts[1] || path.starts_with(parts[1] + "/")) return parts[0] + path.substr(parts[1].size());
  }
  return path;
}

void read_task_script(BatchFile& file, const LaunchLine& launch, const ScriptReader& read) {
  ShellVariables seen;
  for (const auto& [name, variable] : file.batch.variables) {
    if (variable.is_exported) seen[name] = variable;
  }
  if (const auto text = launch.shell_text()) {
    // Adds empty lines before the text, so that its commands keep their line numbers in the batch script.
    const auto above = std::string(static_cast<std::size_t>(std::max(launch.line, 1)) - 1, '\n');
    auto facts = read_script_facts(above + text->value.text, seen);
    facts.file = file.name;
    file.task_scripts.push_back(std::move(facts));
    return;
  }
  const auto path = launch.shell_script();
  if (!path) return;
  const auto text = read(outside(*path, launch.container.binds));
  if (!text) {
    file.unread_scripts.push_back({launch.line, *path, "it cannot be read from here"});
    return;
  }
  auto facts = read_script_facts(*text, seen);
  facts.file = *path;
  file.task_scripts.push_back(std::move(facts));
}

}  // namespace

const LaunchLine* BatchFile::main_launch() const {
  const LaunchLine* found = nullptr;
  for (const auto& launch : batch.launches) {
    if (!launch.is_utility() || found == nullptr || found->is_utility()) found = &launch;
  }
  return found;
}

const ScriptSetting* BatchFile::task_setting(std::string_view variable) const {
  for (const auto& facts : task_scripts) {
    if (const auto* setting = facts.exported(variable)) return setting;
  }
  return batch.exported(variable);
}

BatchFile read_batch_file(std::string file_name, std::string_view text, const ScriptReader& read) {
  BatchFile file{.name = std::move(file_name)};
  file.has_interpreter = text.starts_with("#!");
  for (auto& line : split(text, '\n')) {
    if (line.ends_with('\r')) {
      file.has_dos_ends = true;
      line.pop_back();
    }
    file.lines.push_back(std::move(line));
  }
  if (!file.lines.empty() && file.lines.back().empty()) file.lines.pop_back();
  read_directives(file);
  file.batch = read_script_facts(text);
  for (const auto& launch : file.batch.launches) {
    if (!launch.is_utility()) read_task_script(file, launch, read);
  }
  return file;
}

}  // namespace lockstep
