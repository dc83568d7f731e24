// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/join.h"

#include <csignal>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/comm/gloo/mesh.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/comm/join_device.h"
#include "lockstep/comm/join_store.h"
#include "lockstep/launch/healing.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/watch/page.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

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

// Gloo writes to sockets whose peer may have died. SIGPIPE would then end the program. It is ignored, as in Python, so
// that the write returns an error. If the program has a handler for SIGPIPE, that one stays.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// Returns once every rank has joined the store and has made its connections to the others.
void connect_ranks(Group::Impl& impl, const Environment& env, const JoinOptions& options) {
  const auto& placement = impl.placement;
  const auto timeout = find_join_timeout(env, options);
  const JoinedStore joined = join_store(placement, env, options.run_dir, timeout);
  // The store of torchrun's agent outlives a restart of the ranks, and has keys of other programs too.
  const auto prefix =
      "lockstep/" + env.get("TORCHELASTIC_RESTART_COUNT").value_or("0") + "/" + std::to_string(joined.joins);
  impl.store = c10::make_intrusive<c10d::PrefixStore>(prefix, joined.store);
  const bool is_healed = joined.connections && can_be_replaced(impl, env);
  const MeshRequest request{.store = impl.store,
                            .placement = placement,
                            .own_address = joined.own_address,
                            .limits = {timeout, options.collective_timeout, options.collective_timeout},
                            .is_stopping = StopSignals::arrived,
                            .is_endable = is_healed};
  auto mesh = as_peer_error("met", [&] { return connect_mesh(request); });
  impl.process = mesh.group;
  if (!is_healed) {
    impl.gloo = mesh.gloo;
    return;
  }
  impl.rejoin = std::make_unique<Rejoin>(joined.connections, joined.own_address, request.limits);
  impl.rejoin->enter(1, placement.rank, mesh);
}

// Prepares a process that was started in the place of a dead one. It connects to the other ranks only later.
void prepare_to_rejoin(Group::Impl& impl, const Environment& env, const JoinOptions& options,
                       std::uint32_t generation) {
  const auto timeout = find_join_timeout(env, options);
  const JoinedStore joined = join_store(impl.placement, env, options.run_dir, timeout);
  if (!joined.connections) {
    throw Error(ErrorKind::kEnvironment, std::string(kGenerationVariable) + " is set, and no launcher serves a store",
                "unset it; only a launcher of Lockstep's sets it, for a rank that it starts again");
  }
  const MeshLimits limits{timeout, options.collective_timeout, options.collective_timeout};
  impl.rejoin = std::make_unique<Rejoin>(joined.connections, joined.own_address, limits, generation - 1);
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
  return join_with_device(placement, env, options,
                          [&] { return chosen_device(device_request(placement, env, options), this_node()); });
}

Group join_with_device(const Placement& placement, const Environment& env, const JoinOptions& options,
                       const std::function<RankDevice()>& device) {
  auto impl = std::make_unique<Group::Impl>();
  impl->placement = placement;
  impl->may_share_device = options.share_device;
  impl->timeout = options.collective_timeout;
  Page::own().set_rank(placement.rank);
  const auto choose = [&, &chosen = impl->device] { chosen = device(); };
  if (placement.world == 1 && !options.connect_single_rank) {
    choose();
    return Group(std::move(impl));
  }
  ignore_broken_pipes();
  if (const auto generation = env.get_int(kGenerationVariable)) {
    prepare_to_rejoin(*impl, env, options, static_cast<std::uint32_t>(*generation));
    choose();
    return Group(std::move(impl));
  }
  connect_ranks(*impl, env, options);
  Group group(std::move(impl));
  // The device is taken only now. A rank that finds no device must not fail before the others can hear of it.
  on_every_rank(group, choose);
  connect_devices(group, options.share_device, options.collective_timeout);
  return group;
}

}  // namespace lockstep
