// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/side_by_side.h"

#include <algorithm>
#include <array>

#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

constexpr int kWide = 160;

struct Reason {
  std::string_view option;
  std::string_view why;
};

constexpr auto kReasons = std::to_array<Reason>({
    {"nodes", "Said in full, so that tasks and devices of a node follow."},
    {"ntasks", "It follows from nodes and tasks of a node."},
    {"ntasks-per-node", "One task for each device."},
    {"cpus-per-task", "A device's share of the node's cores; since Slurm 22.05 srun needs it as well."},
    {"gres", "Devices are asked for as the site spells it."},
    {"gpus", "Devices are asked for as the site spells it."},
    {"gpus-per-node", "Devices are asked for as the site spells it."},
    {"gpus-per-task", "Devices are asked for as the site spells it."},
    {"mem", "Memory as the profile gives it: a device's share, or all of the node."},
    {"mem-per-gpu", "Memory as the profile gives it: a device's share, or all of the node."},
    {"mem-per-cpu", "Memory as the profile gives it: a device's share, or all of the node."},
    {"time", "Written as HH:MM:SS."},
    {"account", "The site wants one."},
    {"partition", "The profile's default, said in full."},
    {"qos", "The profile's default, said in full."},
    {"output", "logs/job.log in the run folder, which is there before Slurm opens it."},
    {"error", "Errors go to the same log, so that the lines stay in order."},
    {"open-mode", "A job that is put back into the queue adds to its log."},
    {"requeue", "The job goes on after a node fails or the time is up."},
    {"no-requeue", "The script says so: the job is not to run twice."},
    {"signal", "The script is warned, tells all ranks, and goes on in a next job once they have ended."},
    {"job-name", "Named after the program."},
    {"chdir", "The job starts in the same folder, whatever folder sbatch is called in."},
    {"export", "The script loads all that it needs, or takes the shell's variables, as the site wants."},
    {"threads-per-core", "One thread on each core."},
    {"hint", "One thread on each core."},
    {"constraint", "The site's name for nodes with devices."},
    {"kill-on-bad-exit", "One failed task ends all, so that the others do not wait for it."},
    {"cpu-bind", "Each task on the cores near its device."},
    {"gpu-bind", "Each task with the device that is near its cores."},
    {"array", "A job of each value: --sweep."},
});

std::string why(const std::string& option) {
  const auto found = std::ranges::find(kReasons, option, &Reason::option);
  return std::string(found == kReasons.end() ? "Kept from the script, or the profile's own." : found->why);
}

std::string cut(std::string text, std::size_t width) {
  if (width_of(text) <= width) return text;
  while (width_of(text) >= width) {
    text.pop_back();
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.pop_back();
  }
  return text + "…";
}

struct Row {
  std::string option{};
  std::string theirs = "-";
  std::string ours = "-";
  bool is_same = false;
};

std::string value_of(const SlurmOptions& options, const std::string& name) {
  const auto* option = options.find(name);
  if (option == nullptr) return "-";
  return option->value.empty() ? "yes" : option->value;
}

/// Returns the options of both scripts: in the order of the user's script, then those that only Lockstep's has.
std::vector<Row> rows(const SlurmOptions& theirs, const SlurmOptions& ours) {
  std::vector<Row> rows;
  for (const auto* options : {&theirs, &ours}) {
    for (const auto& option : options->list) {
      if (std::ranges::find(rows, option.name, &Row::option) != rows.end()) continue;
      Row row{option.name, value_of(theirs, option.name), value_of(ours, option.name)};
      row.is_same = row.theirs == row.ours;
      if (option.name == "time") row.is_same = slurm_time(row.theirs) == slurm_time(row.ours);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string table(const std::vector<Row>& rows, std::size_t columns) {
  constexpr std::size_t kName = 21;
  const auto cell = std::max<std::size_t>(20, (columns - kName - 4) / 2 - 1);
  std::string text;
  for (const auto& row : rows) {
    const auto sign = row.is_same ? "  " : "* ";
    auto line =
        sign + padded("--" + row.option, kName) + " " + padded(cut(row.theirs, cell), cell) + " " + cut(row.ours, cell);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (!row.is_same) text += wrapped(why(row.option), columns - 1, "      ");
  }
  return text;
}

std::string findings_text(const ScriptComparison& of, std::size_t columns) {
  std::string text;
  for (const auto& finding : of.findings) {
    auto place = (finding.file.empty() ? of.theirs.name : finding.file);
    if (finding.line > 0) place += ":" + std::to_string(finding.line);
    text += std::string(name_of(finding.severity)) + " " + finding.code + "  [" + place + "]\n" +
            wrapped(finding.fact, columns - 1, "  ") + wrapped("fix: " + finding.fix, columns - 1, "  ");
  }
  return text.empty() ? "nothing found\n" : text;
}

std::string numbered(const BatchFile& file, std::size_t i) {
  const auto number = std::to_string(i + 1);
  return std::string(4 - std::min<std::size_t>(4, number.size()), ' ') + number + "  " + file.lines[i];
}

std::string two_columns(const ScriptComparison& of, std::size_t columns) {
  const auto half = (columns - 3) / 2;
  const auto ours = split(of.ours, '\n');
  std::string text;
  for (std::size_t i = 0; i < std::max(of.theirs.lines.size(), ours.size()); ++i) {
    const auto left = i < of.theirs.lines.size() ? numbered(of.theirs, i) : std::string();
    auto line = padded(cut(left, half), half) + " | " + (i < ours.size() ? cut(ours[i], half) : "");
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string below_each_other(const ScriptComparison& of) {
  std::string text = "== " + of.theirs.name + "\n\n";
  for (std::size_t i = 0; i < of.theirs.lines.size(); ++i) text += numbered(of.theirs, i) + "\n";
  return text + "\n== ours\n\n" + of.ours;
}

/// Breaks the command into several lines of whole words.
std::string command_text(const std::vector<std::string>& arguments, std::size_t columns) {
  std::string text;
  std::string line = "   ";
  for (const auto& word : arguments) {
    const auto quoted = shell_quoted(word);
    if (width_of(line) + width_of(quoted) + 3 > columns && width_of(line) > 6) {
      text += line + " \\\n";
      line = "     ";
    }
    line += " " + quoted;
  }
  return text + line + "\n";
}

}  // namespace

std::string side_by_side(const ScriptComparison& of) {
  const auto columns = static_cast<std::size_t>(std::clamp(of.columns, 60, 400));
  const auto text_columns = std::min<std::size_t>(columns, 100);
  const auto ours = read_batch_file("job.sh", of.ours, [](const auto&) { return std::nullopt; });
  std::string text =
      "== What is wrong in " + of.theirs.name + ", for " + of.cluster + "\n\n" + findings_text(of, text_columns);
  text += "\n== What the job asks for: " + of.theirs.name + ", then ours (* differs)\n\n";
  text += table(rows(of.theirs.options, ours.options), text_columns);
  const auto* their_launch = of.theirs.main_launch();
  const auto* our_launch = ours.main_launch();
  if (their_launch != nullptr && our_launch != nullptr) {
    text += "\n== What srun is told: " + of.theirs.name + ", then ours (* differs)\n\n";
    text += table(rows(their_launch->srun, our_launch->srun), text_columns);
  }
  if (!of.request.left_out.empty()) text += "\n== What ours leaves out\n\n";
  for (const auto& each : of.request.left_out) text += wrapped(each, text_columns - 1, "  ");
  text += "\n";
  text +=
      of.columns >= kWide ? "== " + of.theirs.name + " | ours\n\n" + two_columns(of, columns) : below_each_other(of);
  return text + "\n== Nothing was submitted. This submits ours:\n\n" + command_text(of.request.arguments, columns);
}

}  // namespace lockstep
