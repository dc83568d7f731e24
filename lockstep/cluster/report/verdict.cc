// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/report/numbers.h"

namespace lockstep {
namespace {

/// A way in which a run loses time, apart from training on a busy device.
struct Loss {
  std::string limit{};
  double seconds = 0;
  std::string fact{};  ///< A sentence's subject and verb, such as "Validation takes".
  std::string advice{};
};

Spread busy_of(const RunReport& report) {
  Spread busy;
  for (const auto& node : report.telemetry.nodes) busy.add(node.busy());
  return busy;
}

std::optional<double> cores_of(const RunReport& report) {
  double used = 0;
  double seconds = 0;
  for (const auto& node : report.telemetry.nodes) {
    used += node.core_seconds;
    seconds += node.task_seconds;
  }
  return seconds > 0 ? std::optional(used / seconds) : std::nullopt;
}

bool trains_on_processors(const RunReport& report) {
  const auto device = report.facts.find("device");
  return device != report.facts.end() && device->second == "cpu";
}

/// The seconds in which devices did nothing while steps were made. For a run on CPUs, it is the cores that tasks have
/// threads for.
std::optional<Loss> idle_loss(const RunReport& report, double all_s, double training_s) {
  Loss loss{.limit = "idle"};
  double idle_share = 0;
  if (trains_on_processors(report)) {
    const auto fact = report.facts.find("threads");
    const auto cores = cores_of(report);
    const auto threads = fact == report.facts.end() ? std::nullopt : parsed_double(fact->second);
    std::int64_t tasks = 0;
    for (const auto& node : report.telemetry.nodes) tasks += node.tasks;
    if (!threads || !cores || *threads <= 0 || tasks <= 0) return std::nullopt;
    // One task may have started several ranks, so tasks are not a count of ranks.
    const double wanted =
        *threads * std::max(1.0, static_cast<double>(report.training->figures.ranks) / static_cast<double>(tasks));
    idle_share = 1 - *cores / wanted;
    loss.fact = "Each task used " + fixed(*cores, 1) + " cores on average and has " +
                counted(std::llround(wanted), "thread") + " to compute with; its steps waited at least";
    loss.advice =
        "if an epoch's samples are read from a slow disk, raise data.workers or stage the data; if one rank waits "
        "for another, look for a busy neighbour on its node";
  } else {
    const auto busy = busy_of(report).mean();
    if (!busy) return std::nullopt;
    idle_share = 1 - *busy / 100;
    loss.fact = "Devices were busy " + fixed(*busy, 0) + " % of the time; in steps they waited at least";
    loss.advice = "data comes too slowly or steps are too small: raise data.workers, then the batch";
  }
  loss.seconds = all_s * idle_share - (all_s - training_s);
  return loss;
}

std::vector<Loss> losses_of(const RunReport& report) {
  const auto& figures = report.training->figures;
  const double epochs = figures.epoch_s > 0 ? (figures.run_s - figures.start_s) / figures.epoch_s : 0;
  const auto phase = [&](EpochPhase each) { return figures.phases_s.at(static_cast<std::size_t>(each)) * epochs; };
  std::vector<Loss> losses = {
      {"start", figures.start_s, "The start, up to the first step, takes",
       "a longer run outweighs it; on many nodes `submit --stage` brings an environment there once"},
      {"validation", phase(EpochPhase::kValidation), "Validation takes",
       "validate less often (trainer.validate_every) or on fewer samples (trainer.limit_val_batches)"},
      {"snapshots", phase(EpochPhase::kSnapshots), "Writing snapshots takes",
       "write them less often (snapshot.every_epochs, or snapshot.every_minutes), or to a faster file system"},
      {"rest", phase(EpochPhase::kRest), "What is neither steps nor validation nor snapshots takes",
       "larger epochs: what comes between two of them costs the same for each"}};
  if (auto idle = idle_loss(report, figures.run_s, phase(EpochPhase::kTraining))) losses.push_back(*idle);
  return losses;
}

/// Returns a sentence on how much larger the batch could be in a device's memory. Twice the batch needs at most twice
/// the memory.
std::string room_words(const RunReport& report) {
  std::uint64_t peak = 0;
  std::uint64_t total = 0;
  for (const auto& node : report.telemetry.nodes) {
    for (const auto& device : node.devices) {
      if (device.memory_peak_bytes.value_or(0) <= peak) continue;
      peak = *device.memory_peak_bytes;
      total = device.memory_total_bytes;
    }
  }
  if (peak == 0 || total < 2 * peak) return {};
  return " At most " + human_bytes(peak) + " of a device's " + human_bytes(total) + " were used: a batch " +
         std::to_string(total / peak) + " times as large fits.";
}

std::string room_or_more_nodes(const RunReport& report) {
  const auto room = room_words(report);
  return room.empty() ? " To be done sooner it takes more ranks: `lockstep scale` shows how far they help." : room;
}

RunVerdict verdict_of_training(const RunReport& report) {
  const double all_s = report.training->figures.run_s;
  if (!(all_s > 0)) return {"unknown", "Nothing has been measured yet: its first lines tell no time."};
  const auto losses = losses_of(report);
  const auto worst = std::ranges::max_element(losses, {}, &Loss::seconds);
  if (worst->seconds < kNoticedLoss * all_s) {
    const auto& figures = report.training->figures;
    std::string text =
        "Nothing stands out: " + percent_text(figures.phases_s[0] / figures.epoch_s) + " of an epoch is training";
    if (const auto busy = busy_of(report).mean())
      text += ", and devices were busy " + fixed(*busy, 0) + " % of the time";
    return {"none", text + "." + room_or_more_nodes(report)};
  }
  const double share = std::min(worst->seconds / all_s, 0.999);
  return {worst->limit,
          worst->fact + " " + seconds_text(worst->seconds) + " of " + seconds_text(all_s) + " (" + percent_text(share) +
              "): without it the run would be " + times_text(1 / (1 - share)) + " as fast.",
          worst->advice + "."};
}

/// Returns the verdict on a program about which only the nodes' agents report.
RunVerdict verdict_of_program(const RunReport& report) {
  const auto cores = cores_of(report);
  const auto busy = busy_of(report).mean();
  if (!busy && !cores) {
    return {"unknown", report.state == RunState::kWaiting
                           ? "It waits in the queue: nothing has been measured yet."
                           : "Nothing has been measured: it ended, or still is, before its "
                             "first sample."};
  }
  const auto cores_text = cores ? "each task used " + fixed(*cores, 1) + " cores on average" : std::string();
  if (!busy) return {"none", "Of this program only its nodes are known: " + cores_text + ", and no device was seen."};
  const double idle = 1 - *busy / 100;
  const std::string with_cores = cores ? "; " + cores_text : std::string();
  if (idle < kNoticedLoss) {
    return {"none", "Nothing stands out: devices were busy " + fixed(*busy, 0) + " % of the time" + with_cores + "." +
                        room_words(report)};
  }
  return {"idle",
          "Devices did nothing in " + percent_text(idle) + " of the time (" + seconds_text(idle * report.alive_s) +
              " of " + seconds_text(report.alive_s) + ")" + with_cores + ".",
          "more processes that read data if its cores are busy, a larger batch if they are not."};
}

const NodeFinding* finding_of(const RunReport& report, std::string_view code, bool only_open) {
  for (const auto& node : report.telemetry.nodes) {
    for (const auto& finding : node.findings) {
      if (finding.code == code && !(only_open && finding.over)) return &finding;
    }
  }
  return nullptr;
}

/// Returns the node that failed, according to srun. Empty if srun's messages in the last lines of the log name none.
std::string lost_node(const RunReport& report) {
  constexpr std::string_view kSaid = "srun: error: Node failure on ";
  for (const auto& line : report.last_lines) {
    if (const auto at = line.find(kSaid); at != std::string::npos)
      return std::string(trimmed(std::string_view(line).substr(at + kSaid.size())));
  }
  return {};
}

/// Returns advice after a bad end.
std::string advice_after(const RunReport& report) {
  const auto& end = *report.end;
  const auto& first = report.first_exit;
  const auto lost = lost_node(report);
  if (end.state == "timeout") return "a longer --time, or --chain K to go on in a next job.";
  if (end.state == "out of memory" || (first && first->rank.signal == SIGKILL))
    return "fewer loader workers or a smaller batch, or more of the node's memory (--sbatch=--mem=…).";
  if (end.state == "node lost")
    return "submit it again, with --sbatch=--exclude=" + (lost.empty() ? "NODE" : lost) +
           " if the same node fails again.";
  return {};
}

/// Returns the verdict on a job that ended badly: the reason, and the rank that failed first.
RunVerdict verdict_of_failure(const RunReport& report) {
  const auto& end = *report.end;
  std::string text = "It failed, with " + exit_code_text(end.code);
  if (end.state == "cancelled") text = "It was cancelled";
  if (end.state == "preempted") text = "Slurm preempted it";
  if (end.state == "timeout") text = "Its time was up: Slurm ended it at its limit";
  if (end.state == "out of memory") text = "It ran out of memory: Slurm ended it";
  if (end.state == "node lost") {
    const auto lost = lost_node(report);
    text = "A node was lost" + (lost.empty() ? lost : " (" + lost + ")");
  }
  if (report.training) text += ", after step " + std::to_string(report.training->steps_done);
  if (report.first_exit) {
    text = (end.state == "failed" ? std::string("It failed: ") : text + "; ") + to_text(*report.first_exit);
  }
  text += ". Its logs are in " + (report.path / "logs").string() + ".";
  return {end.state == "out of memory" ? "memory" : "failed", text, advice_after(report)};
}

}  // namespace

RunVerdict verdict_of(const RunReport& report) {
  const bool has_ended = report.state == RunState::kFinished || report.state == RunState::kStopped;
  const auto* stuck = finding_of(report, "tasks-stuck", /*only_open=*/true);
  if (stuck != nullptr && !has_ended) {
    return {"stuck",
            "It is stuck, since " + moment_text(stuck->since) + " on " + stuck->node + ": " + stuck->fact() + ".",
            "the ranks' logs tell who waits for whom; `lockstep stop` ends it."};
  }
  if (report.state == RunState::kFailed) return verdict_of_failure(report);
  if (report.state == RunState::kBroken) {
    std::string text = "It broke off";
    if (report.training) text += " after step " + std::to_string(report.training->steps_done);
    if (report.last) text += ", last heard of at " + moment_text(*report.last);
    return {"broken", text + ", and no end is recorded.",
            "the end of its logs in " + (report.path / "logs").string() +
                (report.training ? "; started again it goes on from its last snapshot." : ".")};
  }
  if (const auto* sockets = finding_of(report, "sockets", /*only_open=*/false)) {
    return {"sockets", "Ranks talk over plain sockets on a node with a fast network: " + sockets->fact() + ".",
            sockets->hint().empty() ? "`lockstep doctor` on the job's nodes." : sockets->hint() + "."};
  }
  return report.training ? verdict_of_training(report) : verdict_of_program(report);
}

}  // namespace lockstep
