// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/step_end.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kAtOnce = 60;  // Seconds.
constexpr int kKilled = 128 + SIGKILL;
constexpr int kTerminated = 128 + SIGTERM;

ExitRecords of_this_step(ExitRecords records, const EndedStep& ended) {
  std::erase_if(records.ranks, [&](const auto& each) {
    return each.job != ended.job || each.start != ended.start || each.restart != ended.restart;
  });
  return records;
}

/// Adds the nodes of ranks that were lost with their parents. Slurm finds a node down only after a while.
EndedStep with_lost_ranks(EndedStep ended, const ExitRecords& records) {
  for (const auto& each : records.ranks) {
    const bool is_known = std::ranges::count(ended.lost, each.node) > 0;
    if (each.is_lost && !is_known) ended.lost.push_back(each.node);
  }
  return ended;
}

/// If a node is lost, srun may still exit with 0. So the step ended well only if every rank has recorded a good end.
bool ended_well(const EndedStep& ended, const ExitRecords& records) {
  const auto well = std::ranges::count_if(records.ranks, [](const auto& each) { return each.code == 0; });
  return ended.code == 0 && (ended.lost.empty() || well >= ended.tasks);
}

bool is_error_at_once(const EndedStep& ended) {
  return ended.lost.empty() && ended.seconds < kAtOnce && ended.code != kKilled && ended.code != kTerminated;
}

struct NodeChange {
  std::vector<std::string> left_out{};
  std::vector<std::string> added{};
};

/// Returns a line such as "step started again without n2, with n4 (restart 1 of 3): …".
std::string again_words(const EndedStep& ended, const NodeChange& change, int most, const std::string& why) {
  std::string nodes = change.left_out.empty() ? "" : " without " + joined(change.left_out, ", ");
  if (!change.added.empty()) nodes += ", with the spare " + joined(change.added, ", ");
  return "the step is started again" + nodes + " (restart " + std::to_string(ended.restart + 1) + " of " +
         std::to_string(most) + "): " + why;
}

/// True if the error is in the recipe or its data, so that the next start would meet it again.
bool is_the_recipes(const EndedStep& ended) {
  return ended.is_recipe && (ended.code == exit_code(ErrorKind::kUsage) ||
                             ended.code == exit_code(ErrorKind::kRecipe) || ended.code == exit_code(ErrorKind::kData));
}

/// Adds spare nodes until the step has the number of nodes that it wants.
std::vector<std::string> fill_up(std::vector<std::string>& nodes, const EndedStep& ended) {
  std::vector<std::string> added;
  for (const auto& each : ended.spares) {
    if (std::ssize(nodes) >= ended.wanted) break;
    nodes.push_back(each);
    added.push_back(each);
  }
  return added;
}

json to_json(const EndedStep& ended, const StepRestart& verdict) {
  return {{"job", ended.job},          {"start", ended.start},     {"restart", ended.restart},
          {"code", ended.code},        {"seconds", ended.seconds}, {"lost", ended.lost},
          {"again", verdict.is_again}, {"reason", verdict.reason}, {"nodes", ended.nodes}};
}

/// Returns the nodes on which an earlier start of this job's step ran, and this start did not.
std::set<std::string> left_out_before(const EndedStep& ended, const fs::path& path) {
  std::set<std::string> found;
  for (const auto& line : split(text_or_nothing(path), '\n')) {
    const auto object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || object.value("job", "") != ended.job) continue;
    for (const auto& node : object.value("nodes", std::vector<std::string>{})) found.insert(node);
  }
  for (const auto& node : ended.nodes) found.erase(node);
  return found;
}

/// Returns the last record of this job's starts. Nothing if there is none, or if the line is incomplete.
std::optional<EndedStep> end_before(const EndedStep& ended, const fs::path& path) {
  std::optional<EndedStep> found;
  for (const auto& line : split(text_or_nothing(path), '\n')) {
    const auto object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) continue;
    try {
      EndedStep before{.job = object.at("job"),
                       .start = object.at("start"),
                       .restart = object.at("restart"),
                       .code = object.at("code"),
                       .seconds = object.at("seconds"),
                       .lost = object.at("lost")};
      if (before.job == ended.job && before.start == ended.start) found = std::move(before);
    } catch (const json::exception&) {
      // The line was written by another version of Lockstep.
    }
  }
  return found;
}

}  // namespace

StepRestart decide_restart(const EndedStep& told, const ExitRecords& records, const EndedStep* before, int most) {
  const auto own = of_this_step(records, told);
  const auto ended = with_lost_ranks(told, own);
  if (ended_well(ended, own)) return {};
  const auto first = first_exit(own, ended.job);
  const std::string why = !told.lost.empty() ? "Slurm has lost " + joined(told.lost, ", ")
                          : first            ? to_text(*first)
                                             : "it ended with " + exit_code_text(ended.code);
  if (ended.restart >= most) {
    return {.reason = "the step is not started again after " + counted(most, "restart") + ": " + why};
  }
  if (is_the_recipes(ended))
    return {.reason = "the step is not started again, the recipe or its data are wrong: " + why};
  if (before != nullptr && is_error_at_once(ended) && is_error_at_once(*before) && ended.code == before->code) {
    return {.reason =
                "the step is not started again, the same code came within a minute of each of two starts: " + why};
  }
  StepRestart verdict{.is_again = true, .nodes = ended.nodes};
  auto left_out = ended.lost;
  const bool has_others = ended.nodes.size() > 1 || !ended.spares.empty();
  // A rank that only lost a peer, or was told of an error, says nothing about its own node.
  if (left_out.empty() && first && first->rank.is_cause() && has_others) left_out = {first->rank.node};
  std::erase_if(verdict.nodes, [&](const auto& node) { return std::ranges::find(left_out, node) != left_out.end(); });
  const auto added = fill_up(verdict.nodes, ended);
  // The node to blame is used again if the step would have too few nodes without it.
  if (ended.must_have_all && std::ssize(verdict.nodes) < ended.wanted && ended.lost.empty()) {
    verdict.nodes = ended.nodes;
    left_out.clear();
  }
  if (ended.must_have_all && std::ssize(verdict.nodes) < ended.wanted) {
    return {.reason = "the step is not started again, it needs " + counted(ended.wanted, "node") + " and " +
                      std::to_string(verdict.nodes.size()) + " are left (data.batch counts per rank): " + why};
  }
  if (verdict.nodes.empty()) return {.reason = "the step is not started again, no node is left: " + why};
  verdict.reason = again_words(ended, {.left_out = left_out, .added = added}, most, why);
  return verdict;
}

StepRestart decide_and_keep_restart(const EndedStep& ended, const fs::path& run_dir, int most) {
  const auto path = run_dir / "restarts.jsonl";
  const auto before = end_before(ended, path);
  // The code of the rank that failed first counts. srun returns the highest code of all ranks, including ranks that
  // were ended because of the first.
  auto told = ended;
  const auto gone = left_out_before(ended, path);
  std::erase_if(told.spares, [&](const auto& node) { return gone.contains(node); });
  const auto records = read_exits(run_dir);
  if (const auto first = first_exit(of_this_step(records, ended), ended.job)) told.code = first->rank.code;
  auto verdict = decide_restart(told, records, before ? &*before : nullptr, most);
  if (verdict.reason.empty()) return verdict;
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) throw io_error("open", path, errno);
  const auto line = json_text(to_json(told, verdict)) + "\n";
  write_all(file.get(), std::as_bytes(std::span(line)), path);
  return verdict;
}

}  // namespace lockstep
