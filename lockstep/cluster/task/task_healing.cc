// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/task_healing.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/socket.h"
#include "lockstep/store/client.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

constexpr seconds kStoreAnswersWithin{10};
constexpr seconds kLookMayTake{1};
constexpr seconds kSrunWaits{300};  // As JobPlan has it for `srun --wait`.

/// A key of the whole run. It exists if a task was lost.
constexpr const char* kTaskLostKey = "a task was lost";

/// A key of the whole run. It exists if the task of a rank has ended, and holds the node with which it was lost, if so.
std::string end_key(int rank) { return "task " + std::to_string(rank) + " has ended"; }

}  // namespace

HealingLimits parsed_healing(const std::string& text) {
  const auto words = split(text, ':');
  const auto most = words.size() == 2 ? parsed_int<int>(words[0]) : std::nullopt;
  const auto window = words.size() == 2 ? parsed_int<int>(words[1]) : std::nullopt;
  if (most && *most >= 0 && window && *window >= 0) return {.most = *most, .window = seconds(*window)};
  throw Error(ErrorKind::kUsage, "--heal is '" + text + "', want two whole numbers, as in 100:120",
              "the first is how many ranks are started again, the second the seconds in which one may die once");
}

TaskHealing::TaskHealing(const ExecTask& task, const HealingLimits& limits, const Log& log)
    : at_(task.at),
      node_(task.node),
      master_(task.facts.master),
      log_(log),
      healing_(limits),
      secret_(task.environment.env.get("LOCKSTEP_MEETING").value_or("")) {
  if (at_.rank != 0) return;
  auto listener = bind_socket(master_.address, master_.port);
  const StoreIdentity identity{secret_.create(), "port " + std::to_string(master_.port)};
  server_ = std::make_unique<StoreServer>(std::move(listener), identity);
}

TaskHealing::~TaskHealing() {
  server_.reset();
  secret_.remove();
}

Environment TaskHealing::with_variables(const Environment& env) const {
  auto all = env.all();
  all["LOCKSTEP_STORE_SERVED"] = "1";
  all[kRankMemoryVariable] = memory_.give();
  if (generation_ > 0) all[kGenerationVariable] = std::to_string(generation_);
  return Environment(std::move(all));
}

StoreIdentity TaskHealing::identity() const {
  const auto secret = secret_.read();
  if (!secret) {
    throw Error(ErrorKind::kPeer, "the run's secret '" + secret_.path().string() + "' is gone",
                "look at the log of rank 0's task, which serves the run's store");
  }
  return {*secret, "port " + std::to_string(master_.port)};
}

StoreClient TaskHealing::connected(Clock::time_point until) const {
  auto socket = connect_once(master_, until);
  if (!socket) throw StoreError(StoreFault::kLost, "nobody serves the run's store any more");
  return {std::move(socket), identity(), until};
}

void TaskHealing::look() noexcept {
  if (presence_) return;
  try {
    const auto until = Clock::now() + kLookMayTake;
    auto client = connected(until);
    client.ask({StoreOperation::kOnLoss, 0, {kTrainingEndedKey, "1", kTaskLostKey, "1", end_key(at_.rank), node_}},
               until);
    presence_.emplace(std::move(client));
  } catch (const std::exception&) {
    // The next look tries again. Until then, the others only learn of the loss of this process by waiting.
  }
}

bool TaskHealing::has_anyone_ended() {
  const auto until = Clock::now() + kStoreAnswersWithin;
  auto client = connected(until);
  return client.ask({StoreOperation::kCheck, 0, {kTrainingEndedKey}}, until).at(0) == "1";
}

bool TaskHealing::heals(const ProgramEnd& end) {
  if (!Healing::is_curable(end.code) || !memory_.is_armed()) return false;
  const std::string fact = "rank " + std::to_string(at_.rank) + " of " + std::to_string(at_.world) + " " +
                           how_it_ended(end.code, end.signal);
  try {
    if (has_anyone_ended()) return false;
    if (const auto refusal = healing_.refusal(at_.rank, Clock::now())) {
      log_.error(fact + " and is not started again: " + *refusal);
      return false;
    }
    const auto until = Clock::now() + kStoreAnswersWithin;
    auto client = connected(until);
    generation_ = next_generation(client, until);
  } catch (const Error& error) {
    log_.error(fact + " and cannot be started again: " + error.what());
    return false;
  }
  log_.warning(fact + "; it is started again, and the others give it the state from memory");
  return true;
}

void TaskHealing::note_end() noexcept {
  try {
    const auto until = Clock::now() + kStoreAnswersWithin;
    // The others may still be at work that needs each other.
    if (presence_) presence_->ask({StoreOperation::kOnLoss, 0, {}}, until);
    auto client = connected(until);
    client.ask({StoreOperation::kSet, 0, {kTrainingEndedKey, "1", end_key(at_.rank), ""}}, until);
  } catch (const std::exception&) {
    // Rank 0's parent, which serves the store, has ended. So no rank can be started again.
  }
}

std::vector<LostTask> TaskHealing::lost_tasks() noexcept {
  if (!server_) return {};
  std::vector<LostTask> lost;
  try {
    const auto until = Clock::now() + kStoreAnswersWithin;
    auto client = connected(until);
    if (client.ask({StoreOperation::kCheck, 0, {kTaskLostKey}}, until).at(0) != "1") return {};
    std::vector<std::string> keys;
    keys.reserve(static_cast<std::size_t>(at_.world));
    for (int rank = 0; rank < at_.world; ++rank) keys.push_back(end_key(rank));
    const auto nodes = client.ask({StoreOperation::kGet, 0, keys}, Clock::now() + kSrunWaits);
    for (int rank = 0; rank < at_.world; ++rank) {
      if (!nodes[rank].empty()) lost.push_back({.rank = rank, .node = nodes[rank]});
    }
  } catch (const std::exception&) {
    return {};
  }
  return lost;
}

}  // namespace lockstep
