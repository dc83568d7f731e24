// SPDX-License-Identifier: Apache-2.0
// How ranks meet again. A rank dies, and its parent raises the generation of the run. The survivors learn of the death
// in two ways. The dead rank's neighbours find their connections closed. All others find them broken by their own
// watch, because the generation has ended, or by a neighbour that left. Each then destroys the objects that use the
// old connections, asks the store for the present generation, and connects to the others again.
//
// A meeting can fail too, if another rank dies meanwhile. The parent of that rank raises the generation once more,
// which ends all waits in the store. If no parent does, because only a connection failed, a rank raises it itself.
#include "lockstep/comm/rejoin.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/gloo/store_adapter.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/comm/join_device.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/watch/page.h"
#include "lockstep/watch/rank_memory.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kParentRaisesWithin{10};
constexpr seconds kRankRaisesAfter{1};
constexpr milliseconds kSlice{100};
constexpr seconds kStoreAnswersWithin{5};
// If a rank dies while ranks connect, the side that would have accepted its connection waits without a socket.
constexpr seconds kConnectWithin{5};
// Longer than Gloo takes. What it has not ended then, it would only end at the time limit of the collective.
constexpr milliseconds kGlooEndsWithin{200};

[[noreturn]] void fail_to_meet(const std::string& fact) {
  throw Error(ErrorKind::kPeer, fact,
              "the rank that failed first says why in its log; then start again with --resume auto");
}

}  // namespace

Rejoin::Rejoin(std::shared_ptr<StoreConnections> connections, std::string own_address, const MeshLimits& limits,
               std::uint32_t ended)
    : connections_(std::move(connections)), own_address_(std::move(own_address)), limits_(limits), generation_(ended) {
  limits_.connect = std::min<milliseconds>(limits_.connect, kConnectWithin);
}

Rejoin::~Rejoin() {
  watch_.reset();
  gloo_.reset();
}

void Rejoin::enter(std::uint32_t generation, int rank, const Mesh& mesh) {
  generation_ = generation;
  is_over_ = false;
  {
    const std::lock_guard lock(mutex_);
    gloo_ = mesh.gloo;
    works_ = mesh.works;
  }
  watch_ = std::make_unique<GenerationWatch>(connections_, generation, std::to_string(rank), [this] {
    is_over_ = true;
    const std::lock_guard lock(mutex_);
    break_connections("this generation of the run has ended");
  });
}

void Rejoin::break_connections(const std::string& why) {
  if (!gloo_) return;
  gloo_->break_connections(why);
  if (!works_->wait_until_idle(kGlooEndsWithin)) works_->end(why);
}

void Rejoin::leave() {
  {
    const std::lock_guard lock(mutex_);
    break_connections("this rank has left the others");
    gloo_.reset();
    works_.reset();
  }
  watch_.reset();
}

std::uint32_t Rejoin::current() const {
  const auto fields = connections_->ask({StoreOperation::kGeneration, 0, {}}, Clock::now() + kStoreAnswersWithin);
  return parsed_int<std::uint32_t>(fields.at(0)).value();
}

bool Rejoin::has_training_ended() const {
  return connections_->ask({StoreOperation::kCheck, 0, {kTrainingEndedKey}}, Clock::now() + kStoreAnswersWithin)
             .at(0) == "1";
}

std::uint32_t Rejoin::next_generation(bool may_raise) {
  const auto limit = Clock::now() + (may_raise ? kRankRaisesAfter : kParentRaisesWithin);
  for (;;) {
    // The generation of a lost parent is over too, but nobody will meet in the next one.
    if (has_training_ended()) fail_to_meet("a peer rank was lost, and its parent starts nothing again");
    if (const auto now = current(); now > generation_) return generation_ = now;
    if (StopSignals::arrived()) fail_to_meet("this rank was asked to stop while it waited for a lost rank");
    if (Clock::now() >= limit && !may_raise) fail_to_meet("a peer rank was lost, and nobody started it again");
    if (Clock::now() >= limit) {
      connections_->ask({StoreOperation::kRaise, generation_ + 1, {}}, Clock::now() + kStoreAnswersWithin);
      continue;
    }
    try {
      connections_->ask({StoreOperation::kWait, generation_, {"the end of this generation"}}, Clock::now() + kSlice);
    } catch (const StoreError& error) {
      if (error.fault() != StoreFault::kOver && error.fault() != StoreFault::kLate) throw;
    }
  }
}

c10::intrusive_ptr<c10d::Store> Rejoin::store_for(std::uint32_t generation) const {
  return c10::make_intrusive<c10d::PrefixStore>(
      "lockstep/meeting", c10::make_intrusive<StoreAdapter>(connections_, limits_.arrive, generation));
}

bool can_be_replaced(const Group::Impl& impl, const Environment& env) {
  return impl.placement.world > 1 && env.get(kRankMemoryVariable) && BreakableGloo::is_possible();
}

bool Group::can_rejoin() const { return impl_->rejoin != nullptr; }

bool Group::is_newcomer() const { return impl_->rejoin && !impl_->process && impl_->left.empty(); }

void Group::leave() {
  if (impl_->rejoin) impl_->rejoin->leave();
  impl_->leave_devices();
  impl_->drop_process();
  impl_->store.reset();
}

void Group::rejoin() {
  auto& impl = *impl_;
  auto& rejoin = *impl.rejoin;
  const auto deadline = Clock::now() + rejoin.limits().arrive;
  for (bool has_failed = false;; has_failed = true) {
    leave();
    const auto generation = rejoin.next_generation(has_failed);
    const auto store = rejoin.store_for(generation);
    try {
      const auto mesh =
          connect_mesh({store, impl.placement, rejoin.own_address(), rejoin.limits(), StopSignals::arrived,
                        /*is_endable=*/true});
      impl.store = store;
      impl.process = mesh.group;
      Page::own().restart_collectives();
      rejoin.enter(generation, impl.placement.rank, mesh);
      break;
    } catch (const std::exception& error) {
      if (Clock::now() >= deadline) throw_peer_error("met again", error);
    }
  }
  connect_devices(*this, impl.may_share_device, impl.timeout);
}

}  // namespace lockstep
