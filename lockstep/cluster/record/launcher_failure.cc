// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/launcher_failure.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

using Lines = std::vector<std::string>;

/// Returns the whole number that follows `words` in `line`. Blanks before the number are skipped.
std::optional<int> number_after(std::string_view line, std::string_view words) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const auto rest = trimmed(line.substr(at + words.size()));
  const auto end = rest.find_first_not_of("0123456789", rest.starts_with('-') ? 1 : 0);
  return parsed_int<int>(rest.substr(0, end));
}

/// Returns the number after `name`, such as -9 in " exitcode : -9 (pid: 71)" for "exitcode".
std::optional<int> field(std::string_view line, std::string_view name) {
  const auto text = trimmed(line);
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || trimmed(text.substr(0, colon)) != name) return std::nullopt;
  return number_after(text, ":");
}

bool is_torchrun_error(const std::string& line) {
  return line.starts_with("torch.distributed.elastic.multiprocessing.errors.ChildFailedError");
}

std::optional<LauncherFailure> torchrun_failure(const Lines& lines) {
  const auto cause =
      std::ranges::find_if(lines, [](const auto& line) { return trimmed(line).starts_with("Root Cause"); });
  std::optional<int> rank;
  std::optional<int> code;
  for (auto line = cause; line != lines.end(); ++line) {
    if (!rank) rank = field(*line, "rank");
    if (!code) code = field(*line, "exitcode");
  }
  if (!rank || !code) return std::nullopt;
  // For a child that signal n ended, Python's subprocess reports -n.
  return LauncherFailure{.launcher = "torchrun", .rank = *rank, .code = *code < 0 ? 128 - *code : *code};
}

std::optional<LauncherFailure> mpirun_failure(const Lines& lines) {
  LauncherFailure found{.launcher = "mpirun"};
  for (auto line = lines.begin(); line != lines.end(); ++line) {
    const auto next = std::next(line) == lines.end() ? std::string() : *std::next(line);
    if (const auto aborted = number_after(*line, "MPI_ABORT was invoked on rank ")) {
      found.rank = *aborted;
      found.code = number_after(next, "with errorcode ").value_or(1);
      return found;
    }
    if (const auto killed = number_after(*line, "mpirun noticed that process rank ")) {
      found.rank = *killed;
      found.code = 128 + number_after(*line, "exited on signal ").value_or(0);
      return found;
    }
    if (trimmed(*line).starts_with("Process name: [[")) {  // [[job family,job],rank]
      found.rank = number_after(*line, "],").value_or(0);
      found.code = number_after(next, "Exit code:").value_or(1);
      return found;
    }
  }
  return std::nullopt;
}

/// Returns `lines` without torchrun's traceback and table of failures.
Lines without_torchrun(const Lines& lines) {
  const auto error = std::ranges::find_if(lines, is_torchrun_error);
  if (error == lines.end()) return lines;
  const auto traceback = std::find_if(std::make_reverse_iterator(error), lines.rend(), [](const auto& line) {
    return line.starts_with("Traceback (most recent call last)");
  });
  if (traceback == lines.rend() || traceback == std::prev(lines.rend())) return lines;
  return {lines.begin(), std::prev(traceback.base())};
}

}  // namespace

std::optional<LauncherFailure> launcher_failure(const Lines& lines) {
  const auto found = torchrun_failure(lines);
  return found ? found : mpirun_failure(lines);
}

Lines rank_lines(const Lines& lines) {
  constexpr std::ptrdiff_t kMost = 20;
  auto own = without_torchrun(lines);
  if (std::ssize(own) > kMost) own.erase(own.begin(), own.end() - kMost);
  return own;
}

}  // namespace lockstep
