// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/first_look.h"

#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/job/nested_launcher.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAnyway =
    "if it is there on the compute nodes alone: LOCKSTEP_DOCTOR=off in front of the command goes on";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) || error;
}

/// Returns a hint such as "did you mean 'train.py'? " if a file with a similar name is in the same folder.
std::string near_file(const fs::path& path) {
  const auto near = nearest_name(path.filename().string(), names_in(path.parent_path()));
  return near ? "did you mean '" + *near + "'? " : std::string();
}

[[noreturn]] void refuse(ErrorKind kind, const std::string& what, const fs::path& path) {
  throw Error(kind, "there is no " + what + " '" + path.string() + "'", near_file(path) + kAnyway);
}

void check_data(const Recipe& settings) {
  if (!settings.has("data.path")) return;
  fs::path data;
  try {
    data = settings.path("data.path");
  } catch (const Error&) {
    return;  // It names a variable that may be set on the nodes.
  }
  if (!is_there(data)) refuse(ErrorKind::kData, "data set (data.path)", data);
}

/// Returns the Python files that a recipe names, as in "python:net.py:Net".
void check_python(const Recipe& settings) {
  for (const auto& key : settings.python_keys()) {
    std::optional<PythonName> name;
    try {
      name = settings.python_name(key);
    } catch (const Error&) {
      continue;  // It names a variable that may be set on the nodes.
    }
    if (name && name->is_file && !is_there(name->source)) {
      refuse(ErrorKind::kIo, "Python file (" + key + ")", name->source);
    }
  }
}

}  // namespace

std::optional<fs::path> script_of(const std::vector<std::string>& command) {
  if (command.empty()) return std::nullopt;
  if (const auto nested = nested_launcher(command)) return script_of(nested->launched);
  if (!fs::path(command.front()).filename().string().starts_with("python")) return std::nullopt;
  for (std::size_t at = 1; at < command.size(); ++at) {
    const auto& word = command[at];
    if (!word.starts_with('-')) return word;
    // By python(1), "-", "-m" and "-c" end Python's options, and "-W" and "-X" may have their value in the next word.
    if (word == "-" || word.starts_with("-m") || word.starts_with("-c")) return std::nullopt;
    if (word == "-W" || word == "-X") ++at;
  }
  return std::nullopt;
}

void check_files_of_job(const JobPlan& plan, const Recipe& settings) {
  if (plan.program.is_recipe) {
    check_data(settings);
    check_python(settings);
    return;
  }
  if (plan.has_container() || !plan.setup.empty()) return;
  const auto script = script_of(plan.program.command);
  if (!script) return;
  const auto path = plan.paths.work_dir / *script;
  if (!is_there(path)) refuse(ErrorKind::kEnvironment, "script", path);
}

}  // namespace lockstep
