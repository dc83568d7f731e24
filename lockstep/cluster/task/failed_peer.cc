// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/failed_peer.h"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/telemetry/process_tree.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;  ///< A rank that notices the failure by itself ends within this time.
constexpr int kOftenUpTo = 64;   ///< Number of ranks up to which each looks every 2 s.

bool is_failure(int code) { return code != 0 && code != kExitStopped; }

std::uint64_t written_by(pid_t task) {
  const auto sample = sample_of_tree(task);
  return sample ? sample->passed_bytes : 0;
}

}  // namespace

FailedPeer::FailedPeer(RankExit own, int world, std::filesystem::path run_dir, const Log& log)
    : own_(std::move(own)), world_(world), run_dir_(std::move(run_dir)), log_(log) {}

void FailedPeer::tell(const RankExit& end) const {
  if (!is_failure(end.code) || world_ == 1 || failed()) return;
  try {
    make_folder(file().parent_path());
    const nlohmann::ordered_json said = {{"job", own_.job},   {"start", own_.start}, {"restart", own_.restart},
                                         {"rank", own_.rank}, {"node", own_.node},   {"code", end.code}};
    write_whole(file(), said.dump() + "\n", /*durable=*/false);
  } catch (const Error& error) {
    log_.warning("the other ranks are not told of this one's end: " + std::string(error.fact()));
  }
}

// A failure in an earlier start of the step does not count.
std::optional<RankExit> FailedPeer::failed() const {
  const auto said = nlohmann::json::parse(text_or_nothing(file()), nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) return std::nullopt;
  try {
    RankExit peer = own_;
    if (said.at("job") != own_.job || said.at("start") != own_.start || said.at("restart") != own_.restart) return {};
    said.at("rank").get_to(peer.rank);
    said.at("node").get_to(peer.node);
    said.at("code").get_to(peer.code);
    return peer;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void FailedPeer::look(pid_t task, pid_t training, Time now) {
  if (world_ == 1) return;
  if (!peer_) {
    if (now < next_look_) return;
    next_look_ = now + std::max<std::chrono::seconds>(2s, std::chrono::seconds(2 * world_ / kOftenUpTo));
    peer_ = failed();
    quiet_since_ = now;
    if (peer_) written_ = written_by(task);
    return;
  }
  if (const auto written = written_by(task); written != written_) {
    written_ = written;
    quiet_since_ = now;
  }
  if (now - quiet_since_ < kPatience) return;
  log_.error("rank " + std::to_string(peer_->rank) + " on " + peer_->node + " has ended with " +
             exit_code_text(peer_->code) + "; rank " + std::to_string(own_.rank) +
             " has not noticed, and has written nothing for " + std::to_string(kPatience.count()) +
             " s, so it is killed");
  const auto processes = processes_of_tree(task);
  const bool is_first = !std::exchange(has_killed_, true);
  const bool is_inner = std::ranges::find(processes, training) != processes.end();
  ::kill(is_first && is_inner ? training : task, SIGKILL);
  quiet_since_ = now;
}

ProgramEnd FailedPeer::told_end(ProgramEnd end) const {
  if (!has_killed_ || end.code != 128 + SIGKILL) return end;
  end.code = exit_code(ErrorKind::kPeer);
  end.signal = 0;
  return end;
}

}  // namespace lockstep
