// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/mesh.h"

#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/comm/gloo/gloo_listener.h"
#include "lockstep/comm/gloo/noted_process_group.h"
#include "lockstep/comm/gloo/store_bytes.h"

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

// The store ends with rank 0's process. So rank 0 stays until the ranks that arrived have read which ones are missing.
void await_listeners(c10d::Store& store, const Placement& placement) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < placement.world; ++rank) {
    if (store.check({"arrived/" + std::to_string(rank)})) keys.push_back("heard/" + std::to_string(rank));
  }
  try {
    store.wait(keys, kListenersTimeout);
  } catch (const std::exception&) {
    // One of the ranks that arrived has died meanwhile.
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
  // The other ranks wait a little longer than rank 0, so that they can read from it which ranks are missing.
  store.wait({"outcome"}, timeout + std::chrono::seconds(10));
  const auto text = to_text(store.get("outcome"));
  if (text == "met") return;
  store.set("heard/" + std::to_string(placement.rank), to_bytes("1"));
  if (placement.rank == 0) await_listeners(store, placement);
  throw Error(ErrorKind::kPeer, text,
              "check the missing ranks' logs; trainer.join_timeout (JoinOptions::join_timeout) or the variable "
              "LOCKSTEP_MEET_TIMEOUT changes how long is waited");
}

// After a signal to stop, a launcher of ours kills a rank within a minute. Other launchers wait for it.
WatchdogOptions watchdog_options(const MeshRequest& request) {
  constexpr milliseconds kStopLimit{60'000};
  return {.limit = request.limits.collective, .stop_limit = kStopLimit, .is_stopping = request.is_stopping};
}

Mesh gloo_mesh(const MeshRequest& request) {
  const auto& placement = request.placement;
  auto options = c10d::ProcessGroupGloo::Options::create(request.limits.connect);
  GlooListener listener;
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(request.own_address));
  listener.find();
  Mesh mesh;
  mesh.gloo = c10::make_intrusive<BreakableGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", request.store),
                                                 placement.rank, placement.world, options);
  if (request.limits.collective != request.limits.connect) mesh.gloo->limit_collectives(request.limits.collective);
  // Each pair of ranks waits until both are connected. After that, no rank needs this rank's listening socket.
  listener.refuse_strangers();
  if (request.is_endable) mesh.works = std::make_shared<EndableWorks>();
  mesh.group = c10::make_intrusive<NotedProcessGroup>(request.store, placement.rank, placement.world,
                                                      watchdog_options(request), mesh.works);
  mesh.group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, mesh.gloo);
  mesh.group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return mesh;
}

// A rank may end right after join(). It must not close its connections while other ranks still make theirs, and rank 0
// must not close the store.
void await_connected(c10d::Store& store, const Placement& placement, milliseconds timeout) {
  const auto pass = [&](const std::string& gate, bool waits) {
    const std::string open = gate + "/open";
    if (store.add(gate, 1) == placement.world) store.set(open, to_bytes("1"));
    if (waits) store.wait({open}, timeout);
  };
  pass("connected", /*waits=*/true);
  pass("released", /*waits=*/placement.rank == 0);
}

}  // namespace

Mesh connect_mesh(const MeshRequest& request) {
  await_all(*request.store, request.placement, request.limits.arrive);
  auto mesh = gloo_mesh(request);
  await_connected(*request.store, request.placement, request.limits.arrive);
  return mesh;
}

}  // namespace lockstep
