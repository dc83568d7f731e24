// SPDX-License-Identifier: Apache-2.0
// How a rank leaves the group after an exception. It writes `failed/N/RANK` to the store, where N counts its failures.
// Then it waits a moment for the same keys of the other ranks, since all ranks may have thrown the same exception. If
// all of them come, the ranks ask their parents not to start them again. If some key does not come, the rank writes its
// reason to `left`, unless another rank has done so. Then it closes its connections. That ends every collective of the
// others, and they read `left`. A rank that waits for its device has no such collective. It reads `left` once a second,
// and its PeerWatch brings the reason of a neighbour that has left, also once rank 0 and its store are gone. If the
// other process was killed, its connection has closed, and this rank writes to `left` in its place. So does a rank
// whose collective fails because of a killed process.
//
// Rank 0 serves the store, and may be frozen. c10d would then wait for it without a limit. So each request runs in a
// thread, which is abandoned after a time.
#include "lockstep/comm/leave_on_failure.h"

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/comm/gloo/store_bytes.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/watch/rank_memory.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using Store = c10::intrusive_ptr<c10d::Store>;

constexpr milliseconds kOthersThrowWithin{1000};
constexpr milliseconds kLossShowsWithin{1000};
constexpr milliseconds kPause{20};
constexpr milliseconds kStoreAnswersWithin{2000};
constexpr int kMostNamed = 16;
// A process that ends must not destroy its group at the same time. One that goes on may.
constexpr milliseconds kDropsWithin{5000};
constexpr milliseconds kHealingDropsWithin{200};
constexpr const char* kLeft = "left";

// Runs `work` in a thread that nobody has to wait for.
template <typename Work>
auto run_aside(Work work) {
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto end = task.get_future();
  std::jthread(std::move(task)).detach();
  return end;
}

// Returns the store's answer, or nothing if it does not come in time.
template <typename Request>
auto ask(Store store, milliseconds limit, Request request) -> std::optional<decltype(request(*store))> {
  auto answer = run_aside([store = std::move(store), request = std::move(request)] { return request(*store); });
  if (answer.wait_for(limit) != std::future_status::ready) return std::nullopt;
  try {
    return answer.get();
  } catch (const std::exception&) {
    return std::nullopt;  // The store's server is gone.
  }
}

std::string gone(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return "rank " + std::to_string(ranks[0]) + " is gone: its connection has closed";
  std::vector<std::string> words;
  for (const int rank : ranks) words.push_back(std::to_string(rank));
  if (std::ssize(words) > kMostNamed) {
    words.resize(kMostNamed);
    words.emplace_back("…");
  }
  return "ranks " + joined(words, ", ") + " are gone: their connections have closed";
}

// Returns empty text if no rank has left.
std::string reason_of_first_leaver(c10d::Store& store) {
  if (!store.check({kLeft})) return {};
  return to_text(store.get(kLeft));
}

bool has_failed_everywhere(Group::Impl& impl) {
  const auto prefix = "failed/" + std::to_string(++impl.failures) + "/";
  std::vector<std::string> keys;
  for (int rank = 0; rank < impl.placement.world; ++rank) keys.push_back(prefix + std::to_string(rank));
  const auto own = prefix + std::to_string(impl.placement.rank);
  return ask(impl.store, kOthersThrowWithin + kStoreAnswersWithin,
             [keys, own](c10d::Store& store) {
               store.set(own, to_bytes("1"));
               // The keys are checked in a loop, since Store::wait() prints a warning on standard error if a key does
               // not come.
               const auto start = Clock::now();
               bool are_there = false;
               while (!(are_there = store.check(keys)) && Clock::now() - start < kOthersThrowWithin) {
                 std::this_thread::sleep_for(kPause);
               }
               return are_there;
             })
      .value_or(false);
}

// The store and the neighbours keep the first reason that they get.
void tell_others(Group::Impl& impl, const std::string& reason) {
  const auto text = "rank " + std::to_string(impl.placement.rank) + " left the others: " + reason;
  ask(impl.store, kStoreAnswersWithin, [text](c10d::Store& store) {
    store.compareSet(kLeft, {}, to_bytes(text));
    return true;
  });
  if (impl.peers) impl.peers->leave(text);
}

void leave(Group::Impl& impl, const std::string& reason) {
  impl.left = reason;
  impl.end_between_devices(reason);
  if (impl.rejoin) impl.rejoin->leave();
  impl.drop_process();
}

// An error that all ranks have thrown, such as a full disk, would come back in new processes.
void refuse_replacement() noexcept {
  try {
    if (const auto memory = RankMemory::of_process(Environment::of_process())) memory->disarm();
  } catch (const Error&) {
    // The exception that ends the training matters more.
  }
}

void leave_alone(Group::Impl& impl, const std::string& reason) {
  if (impl.store == nullptr) return;
  if (has_failed_everywhere(impl)) return refuse_replacement();
  tell_others(impl, reason);
  leave(impl, reason);
}

}  // namespace

// A thread of Gloo's may wait for its time limit, and Gloo's destructor waits for that thread.
void Group::Impl::drop_process() {
  if (!process) return;
  peers.reset();
  const auto end = run_aside([backend = std::move(gloo), dropped = std::move(process)]() mutable {
    backend.reset();
    dropped.reset();
  });
  end.wait_for(rejoin ? kHealingDropsWithin : kDropsWithin);
}

void Group::Impl::require_member() const {
  if (left.empty()) return;
  throw Error(ErrorKind::kUsage, "this rank has left its group: " + left,
              "end the program, or let all ranks join() again");
}

std::function<std::string()> Group::Impl::watch_for_leavers() const {
  struct Question {
    std::future<std::string> answer;
    Clock::time_point last = Clock::now();
  };
  return [store = store, every = asks_store_every, question = std::make_shared<Question>()]() -> std::string {
    auto& [answer, last] = *question;
    if (answer.valid()) {
      if (answer.wait_for(milliseconds(0)) != std::future_status::ready) return {};
      try {
        return answer.get();
      } catch (const std::exception&) {
        return {};  // The store's server is gone. Rank 0 may have ended well.
      }
    }
    if (store == nullptr || Clock::now() - last < every) return {};
    last = Clock::now();
    answer = run_aside([store] { return reason_of_first_leaver(*store); });
    return {};
  };
}

// A rank that leaves writes its reason to the store before it closes its connections.
std::string Group::Impl::tell_of_lost(const std::vector<int>& lost) const {
  const auto text = gone(lost);
  return ask(store, kStoreAnswersWithin,
             [text](c10d::Store& store) { return to_text(store.compareSet(kLeft, {}, to_bytes(text))); })
      .value_or(text);
}

std::string Group::Impl::reason_of_lost_neighbour() const {
  const auto lost = peers ? peers->find_lost() : std::nullopt;
  if (!lost) return {};
  return lost->reason.empty() ? tell_of_lost({lost->rank}) : lost->reason;
}

// A neighbour that leaves gives its reason before it closes its connection. So it is asked after the connections were
// looked at, and once more if the store has ended with it meanwhile.
std::string Group::Impl::reason_seen() const {
  const auto closed = gloo ? closed_connections(*gloo) : std::vector<int>{};
  if (auto reason = reason_of_lost_neighbour(); !reason.empty()) return reason;
  if (closed.empty()) return ask(store, kStoreAnswersWithin, reason_of_first_leaver).value_or("");
  auto reason = tell_of_lost(closed);
  if (reason != gone(closed)) return reason;
  auto of_neighbour = reason_of_lost_neighbour();
  return of_neighbour.empty() ? reason : of_neighbour;
}

// The collectives of devices may fail before a connection between the hosts closes.
std::string Group::Impl::reason_of_loss() const {
  for (const auto start = Clock::now();;) {
    auto reason = reason_seen();
    if (!reason.empty() || !gloo || Clock::now() - start > kLossShowsWithin) return reason;
    std::this_thread::sleep_for(kPause);
  }
}

void Group::Impl::lose_peer(std::string_view action, const std::exception& error) {
  if (store == nullptr) throw_peer_error(action, error);
  if (is_timeout(error)) {
    tell_others(*this, "no answer came in time while ranks " + std::string(action));
    throw_peer_error(action, error);
  }
  const auto reason = reason_of_loss();
  if (reason.empty()) throw_peer_error(action, error);
  if (peers) peers->leave(reason);
  throw Error(ErrorKind::kPeer, "while ranks " + std::string(action) + ", " + reason,
              "fix what that rank reports, then start again with --resume auto, or let all ranks join() again");
}

void leave_on_failure(Group& group, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kPeer && group.is_connected()) {
      // This rank does not need its connections any more, and other ranks may be waiting for it.
      leave(group.impl(), std::string(first_line(error.fact())));
    } else {
      leave_alone(group.impl(), std::string(first_line(error.fact())));
    }
    throw;
  } catch (const std::exception& error) {
    leave_alone(group.impl(), std::string(first_line(error.what())));
    throw;
  }
}

}  // namespace lockstep
