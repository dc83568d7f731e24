// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/join.h"

#include <algorithm>
#include <csignal>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/gloo_listener.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/comm/join_device.h"
#include "lockstep/comm/join_store.h"
#include "lockstep/comm/noted_process_group.h"
#include "lockstep/comm/store_bytes.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/watch/page.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kListenersTimeout{5000};

std::string missing_ranks(c10d::Store& store, const Placement& placement) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < placement.world && missing.size() < 16; ++rank) {
    if (!store.check({"arrived/" + std::to_string(rank)})) missing.push_back(std::to_string(rank));
  }
  std::string text = (missing.size() == 1 ? "rank " : "ranks ") + joined(missing, ", ");
  const auto hosts = static_cast<int>(placement.hosts.size());
  if (missing.size() == 1 && hosts > 0 && placement.world % hosts == 0) {
    const int node = *parsed_int<int>(missing[0]) / (placement.world / hosts);
    text += " (most likely on " + placement.hosts[static_cast<std::size_t>(node)] + ")";
  }
  return text;
}

// The store ends with rank 0's process, so rank 0 stays until those that came have read who is missing.
void await_listeners(c10d::Store& store, const Placement& placement) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < placement.world; ++rank) {
    if (store.check({"arrived/" + std::to_string(rank)})) keys.push_back("heard/" + std::to_string(rank));
  }
  try {
    store.wait(keys, kListenersTimeout);
  } catch (const std::exception&) {
    // One of them has died meanwhile.
  }
}

// Rank 0 counts arrivals and broadcasts the outcome, so that all ranks end with the same message.
void await_all(c10d::Store& store, const Placement& placement, milliseconds timeout) {
  const auto start = Clock::now();
  store.set("arrived/" + std::to_string(placement.rank), to_bytes("1"));
  if (placement.rank == 0) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < placement.world; ++rank) keys.push_back("arrived/" + std::to_string(rank));
    std::string outcome = "met";
    try {
      store.wait(keys, timeout);
    } catch (const std::exception&) {
      outcome = missing_ranks(store, placement) + " did not arrive within " +
                fixed(seconds_between(start, Clock::now()), 0) + " s (want " + std::to_string(placement.world) +
                " ranks)";
    }
    store.set("outcome", to_bytes(outcome));
  }
  // The others wait a little longer than rank 0, to hear from it who is missing.
  store.wait({"outcome"}, timeout + std::chrono::seconds(10));
  const auto text = to_text(store.get("outcome"));
  if (text == "met") return;
  store.set("heard/" + std::to_string(placement.rank), to_bytes("1"));
  if (placement.rank == 0) await_listeners(store, placement);
  throw Error(ErrorKind::kPeer, text,
              "check the missing ranks' logs; trainer.join_timeout (JoinOptions::join_timeout) or the variable "
              "LOCKSTEP_MEET_TIMEOUT changes how long is waited");
}

// After a signal to stop, a launcher of ours kills a rank within a minute. Others wait for it.
WatchdogOptions watchdog_options(milliseconds timeout) {
  constexpr milliseconds kStopLimit{60'000};
  return {.limit = timeout, .stop_limit = kStopLimit, .is_stopping = StopSignals::arrived};
}

c10::intrusive_ptr<c10d::ProcessGroup> gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const Placement& placement, const std::string& own,
                                                  milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  GlooListener listener;
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(own));
  listener.find();
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                                             placement.rank, placement.world, options);
  // Each pair waits until it is connected at both ends, so nobody needs this rank's listener any more.
  listener.refuse_strangers();
  c10::intrusive_ptr<c10d::ProcessGroup> group =
      c10::make_intrusive<NotedProcessGroup>(store, placement.rank, placement.world, watchdog_options(timeout));
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

// A rank that is done at once must not close its connections, or the store with rank 0, while others still make theirs.
void await_connected(c10d::Store& store, const Placement& placement, milliseconds timeout) {
  const auto pass = [&](const std::string& gate, bool waits) {
    const std::string open = gate + "/open";
    if (store.add(gate, 1) == placement.world) store.set(open, to_bytes("1"));
    if (waits) store.wait({open}, timeout);
  };
  pass("connected", /*waits=*/true);
  pass("released", /*waits=*/placement.rank == 0);
}

milliseconds find_join_timeout(const Environment& env, const JoinOptions& options) {
  const auto seconds = env.get_int("LOCKSTEP_MEET_TIMEOUT");
  return seconds ? milliseconds(std::chrono::seconds(*seconds)) : options.join_timeout;
}

DeviceRequest device_request(const Placement& placement, const Environment& env, const JoinOptions& options) {
  return {.accelerator = options.accelerator,
          .local_rank = placement.local_rank,
          .local_world = placement.local_world,
          .index = placement.device,
          .are_hidden = shown_devices(env) == 0,
          .may_share = options.share_device};
}

// Gloo writes to sockets whose peer may have died. The program must make that an error and not its end, as Python does
// by ignoring the signal. An existing handler stays.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// Returns once every rank has joined the store and has made its connections to the others.
void connect_ranks(Group::Impl& impl, const Environment& env, const JoinOptions& options) {
  const auto& placement = impl.placement;
  const auto timeout = find_join_timeout(env, options);
  const JoinedStore joined = join_store(placement, env, options.run_dir, timeout);
  // torchrun's agent keeps its store over restarts, and other programs' keys in it.
  const auto prefix =
      "lockstep/" + env.get("TORCHELASTIC_RESTART_COUNT").value_or("0") + "/" + std::to_string(joined.joins);
  impl.store = c10::make_intrusive<c10d::PrefixStore>(prefix, joined.store);
  as_peer_error("met", [&] {
    await_all(*impl.store, placement, timeout);
    impl.process = gloo_group(impl.store, placement, joined.own_address, options.collective_timeout);
    await_connected(*impl.store, placement, timeout);
  });
}

}  // namespace

Group alone(RankDevice device) {
  auto impl = std::make_unique<Group::Impl>();
  impl->device = std::move(device);
  return Group(std::move(impl));
}

Group join(const JoinOptions& options) {
  const auto env = Environment::of_process();
  return join(placement_from(env), env, options);
}

Group join(const Placement& placement, const Environment& env, const JoinOptions& options) {
  auto impl = std::make_unique<Group::Impl>();
  impl->placement = placement;
  Page::own().set_rank(placement.rank);
  const auto choose = [&, &chosen = impl->device] {
    chosen = chosen_device(device_request(placement, env, options), this_node());
  };
  if (placement.world == 1 && !options.connect_single_rank) {
    choose();
    return Group(std::move(impl));
  }
  ignore_broken_pipes();
  connect_ranks(*impl, env, options);
  Group group(std::move(impl));
  // Only now, since a rank without a device would leave the others waiting for it.
  on_every_rank(group, choose);
  connect_devices(group, options.share_device, options.collective_timeout);
  return group;
}

}  // namespace lockstep
