// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/launch_line.h"

#include <algorithm>
#include <array>
#include <set>

#include "lockstep/base/text.h"
#include "lockstep/launch/launcher_flags.h"

namespace lockstep {
namespace {

std::string file_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool is_python_name(std::string_view name) {
  return name == "python" || name == "python3" || name.starts_with("python3.") || name == "pythonw";
}

bool is_one_of(std::string_view word, std::span<const std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

class LaunchReader {
 public:
  explicit LaunchReader(LaunchLine& into) : into_(into) {}

  /// Takes the command apart. Returns true if it starts a program by a launcher, such as srun or torchrun.
  bool read() {
    bool is_launch = false;
    while (at_ < into_.words.size()) {
      const auto name = file_name(text(at_));
      if (take_prefix(name)) continue;
      if (name == "srun") {
        take_srun();
      } else if (name == "mpirun" || name == "mpiexec" || name == "orterun") {
        take_mpirun();
      } else if (is_container(name)) {
        take_container(name);
      } else if (take_node_launcher(name)) {
        is_launch = true;
        break;
      } else {
        break;
      }
      is_launch = true;
    }
    into_.program.assign(into_.words.begin() + static_cast<std::ptrdiff_t>(std::min(at_, into_.words.size())),
                         into_.words.end());
    return is_launch || into_.is_python();
  }

 private:
  const std::string& text(std::size_t i) const { return into_.words[i].value.text; }
  bool has(std::size_t i) const { return i < into_.words.size(); }

  /// Skips a command that runs another command, such as `time` or `nohup`. Returns false if `name` is not such a
  /// command.
  bool take_prefix(const std::string& name) {
    if (name == "exec" || name == "nohup" || name == "time" || name == "command" || name == "nice") {
      ++at_;
      return true;
    }
    if (name == "timeout") {
      ++at_;
      while (has(at_) && text(at_).starts_with('-')) ++at_;
      if (has(at_)) ++at_;
      return true;
    }
    if (name == "numactl" || name == "stdbuf") {
      ++at_;
      while (has(at_) && text(at_).starts_with('-')) ++at_;
      return true;
    }
    if (name != "env") return false;
    ++at_;
    while (has(at_) && (text(at_).starts_with('-') || !assigned_name(into_.words[at_].raw).empty())) {
      if (!text(at_).starts_with('-')) into_.variables.push_back(into_.words[at_].raw);
      ++at_;
    }
    return true;
  }

  void take_srun() {
    into_.launcher = "srun";
    std::vector<std::string> rest;
    for (std::size_t i = at_ + 1; has(i); ++i) rest.push_back(text(i));
    at_ += 1 + read_slurm_options(rest, into_.line, into_.srun);
  }

  void take_mpirun() {
    constexpr auto kWithValue = std::to_array<std::string_view>(
        {"-x", "--map-by", "--bind-to", "-map-by", "-bind-to", "--host", "-host", "-H", "--hostfile", "-hostfile",
         "-machinefile", "-f", "-ppn", "-N", "--npernode", "-npernode", "-genv", "--report-bindings"});
    into_.launcher = "mpirun";
    ++at_;
    while (has(at_) && text(at_).starts_with('-')) {
      const std::string flag = text(at_++);
      if (flag == "-n" || flag == "-np" || flag == "--np" || flag == "-c") {
        if (has(at_)) into_.mpirun_tasks = parsed_int<int>(text(at_++));
      } else if (flag == "--mca" || flag == "-mca") {
        at_ += 2;
      } else if (is_one_of(flag, kWithValue) && flag != "--report-bindings" && has(at_)) {
        ++at_;
      }
    }
  }

  static bool is_container(std::string_view name) {
    return name == "singularity" || name == "apptainer" || name == "shifter" || name == "podman-hpc";
  }

  void take_container(const std::string& name) {
    constexpr auto kWithValue = std::to_array<std::string_view>(
        {"-B", "--bind", "--env", "--env-file", "--home", "-H", "--pwd", "--workdir", "-W", "--overlay", "-o",
         "--mount", "--image", "--volume", "-v", "--module", "--network", "--scratch", "-S"});
    into_.container.runtime = name;
    ++at_;
    if (name != "shifter" && has(at_)) ++at_;  // exec, run
    while (has(at_) && text(at_).starts_with('-') && text(at_) != "--") {
      const std::string flag = text(at_++);
      const auto equals = flag.find('=');
      const auto key = flag.substr(0, equals);
      std::string value = equals == std::string::npos ? "" : flag.substr(equals + 1);
      if (equals == std::string::npos && is_one_of(key, kWithValue) && has(at_)) value = text(at_++);
      if (key == "-B" || key == "--bind") {
        for (auto& each : split(value, ',')) into_.container.binds.push_back(std::move(each));
      }
      if (key == "--image") into_.container.image = value;
    }
    if (name != "shifter" && has(at_)) into_.container.image = text(at_++);
    if (has(at_) && text(at_) == "--") ++at_;
  }

  bool take_node_launcher(const std::string& name) {
    NodeLauncher launcher;
    if (name == "torchrun" || name == "deepspeed") {
      launcher.name = name;
      ++at_;
    } else if ((name == "accelerate" || name == "lockstep") && has(at_ + 1) && text(at_ + 1) == "launch") {
      launcher.name = name;
      at_ += 2;
    } else if (is_python_name(name) && take_python_launcher()) {
      launcher.name = "torchrun";
    } else {
      return false;
    }
    take_flags(launcher);
    into_.node_launcher = std::move(launcher);
    return true;
  }

  /// `python -u -m torch.distributed.run`.
  bool take_python_launcher() {
    auto at = at_ + 1;
    while (has(at) && text(at).starts_with('-') && text(at) != "-m" && text(at) != "-c") ++at;
    if (!has(at + 1) || text(at) != "-m") return false;
    const auto& module = text(at + 1);
    if (module != "torch.distributed.run" && module != "torch.distributed.launch") return false;
    at_ = at + 2;
    return true;
  }

  void take_flags(NodeLauncher& launcher) {
    while (has(at_) && text(at_).size() > 1 && text(at_).starts_with('-')) {
      const auto& word = into_.words[at_++];
      if (word.value.text == "--") return;
      auto name = launcher_option(word.value.text);
      if (name.empty()) return;
      const auto equals = word.value.text.find('=');
      if (name == "n" && launcher.name == "lockstep") name = "nproc-per-node";
      LaunchWord value{.raw = word.raw, .value = {}};
      if (equals != std::string::npos) {
        value.value = {word.value.text.substr(equals + 1), word.value.is_known};
      } else if (!is_bare_launcher_option(name) && has(at_)) {
        value = into_.words[at_++];
      }
      launcher.flags[name] = std::move(value);
    }
  }

  LaunchLine& into_;
  std::size_t at_ = 0;
};

}  // namespace

std::string LaunchLine::program_name() const {
  return program.empty() ? std::string() : file_name(program.front().value.text);
}

bool LaunchLine::is_python() const {
  if (node_launcher && !program.empty() && program.front().value.text.ends_with(".py")) return true;
  if (!is_python_name(program_name())) return false;
  for (std::size_t i = 1; i < program.size(); ++i) {
    const auto& word = program[i].value.text;
    if (word == "-c" || word == "--version" || word == "-V") return false;
    if (word == "-m")
      return i + 1 < program.size() && program[i + 1].value.text != "pip" && program[i + 1].value.text != "venv";
    if (!word.starts_with('-')) return true;
  }
  return false;
}

bool LaunchLine::is_utility() const {
  static const std::set<std::string, std::less<>> utilities = {
      "hostname", "nvidia-smi", "rocm-smi", "amd-smi",  "date",  "echo",   "mkdir",  "rm",    "cp",    "mv",
      "ls",       "tar",        "env",      "printenv", "lscpu", "true",   "cat",    "uname", "df",    "free",
      "taskset",  "numactl",    "ulimit",   "unzip",    "rsync", "sbcast", "whoami", "id",    "sleep", "touch"};
  const auto name = program_name();
  if (is_python_name(name)) return !is_python();
  return program.empty() || utilities.contains(name);
}

std::optional<LaunchWord> LaunchLine::shell_text() const {
  const auto name = program_name();
  if (name != "bash" && name != "sh") return std::nullopt;
  for (std::size_t i = 1; i + 1 < program.size(); ++i) {
    const auto& flag = program[i].value.text;
    if (!flag.starts_with('-')) return std::nullopt;
    if (!flag.starts_with("--") && flag.find('c') != std::string::npos) return program[i + 1];
  }
  return std::nullopt;
}

std::optional<std::string> LaunchLine::shell_script() const {
  const auto name = program_name();
  if (name.ends_with(".sh") || name.ends_with(".bash")) return program.front().value.text;
  if ((name != "bash" && name != "sh") || shell_text()) return std::nullopt;
  for (std::size_t i = 1; i < program.size(); ++i) {
    if (!program[i].value.text.starts_with('-')) return program[i].value.text;
  }
  return std::nullopt;
}

std::optional<LaunchLine> read_launch(const ShellCommand& command, const ShellVariables& variables) {
  LaunchLine launch{.line = command.line, .block = command.block, .is_background = command.is_background};
  launch.variables = command.assignments;
  for (const auto& raw : command.words) {
    auto value = shell_value(raw, variables);
    // In `srun $FLAGS python`, a variable without quotes is several words.
    const bool is_split =
        value.is_known && !raw.empty() && raw.front() == '$' && value.text.find(' ') != std::string::npos;
    if (!is_split) {
      launch.words.push_back({raw, std::move(value)});
      continue;
    }
    for (auto& word : split(value.text, ' ')) {
      if (!word.empty()) launch.words.push_back({word, {word, true}});
    }
  }
  if (launch.words.empty() || !LaunchReader(launch).read()) return std::nullopt;
  return launch;
}

}  // namespace lockstep
