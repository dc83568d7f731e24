// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/join.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/comm/join_device.h"
#include "lockstep/launch/interfaces.h"
#include "lockstep/launch/rendezvous_file.h"
#include "lockstep/launch/socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestPause{2};
constexpr milliseconds kLongestPause{100};
constexpr milliseconds kListenersTimeout{5000};

/// Where rank 0's store listens, and what this rank brings to it.
struct StoreRendezvous {
  Endpoint server;                     ///< Port 0 until it is read from `file`.
  FileDescriptor listener;             ///< Rank 0's bound socket; empty if another process serves.
  std::optional<RendezvousFile> file;  ///< None if the launcher gave the address.
  bool is_served = false;              ///< The launcher's own store serves: nobody binds.

  bool is_server(const Placement& placement) const { return placement.rank == 0 && !is_served; }
};

/// A store that this process has joined.
struct JoinedStore {
  c10::intrusive_ptr<c10d::Store> store;
  std::string own_address;  ///< This node's, towards rank 0.
  int joins = 0;
};

/// Joined stores by rank and rendezvous. What a launcher gives, a bound port above all, can be used up once; a later
/// join() in the same process (a second training, say) goes through the first one's store.
class StoreCache {
 public:
  std::optional<JoinedStore> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = stores_.find(key);
    return it == stores_.end() ? std::nullopt : std::optional(it->second);
  }

  void insert(const std::string& key, const JoinedStore& joined) {
    const std::lock_guard lock(mutex_);
    stores_[key] = joined;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, JoinedStore> stores_;
};

StoreCache& store_cache() {
  static StoreCache cache;
  return cache;
}

// None for one rank, which has nobody to tell.
std::optional<RendezvousFile> rendezvous_file(const Placement& placement, const Environment& env,
                                              const JoinOptions& options) {
  if (placement.master || placement.world == 1) return std::nullopt;
  return RendezvousFile::for_ranks(placement, rendezvous_folder(options.run_dir, env));
}

std::string cache_key(const Placement& placement, const Environment& env, const JoinOptions& options) {
  std::string where = "one rank";
  if (const auto& master = placement.master) where = master->address + ":" + std::to_string(master->port);
  if (const auto file = rendezvous_file(placement, env, options)) where = file->path().string();
  return std::to_string(placement.rank) + " at " + where;
}

// A name that this node takes for itself leads the others elsewhere: Debian gives each host's own name 127.0.1.1.
FileDescriptor bind_master(const Endpoint& master, const Environment& env, const Placement& placement) {
  const auto found = resolve_host(master.address);
  const bool misleads =
      placement.nodes > 1 && !found.empty() && found.front() != master.address && found.front().starts_with("127.");
  return bind_socket(misleads ? own_address(placement, env) : master.address, master.port);
}

StoreRendezvous find_rendezvous(const Placement& placement, const Environment& env, const JoinOptions& options) {
  StoreRendezvous found;
  if (placement.master) {
    found.server = *placement.master;
    // torchrun's agent keeps a store at this very port and expects workers to use it.
    found.is_served = env.get("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    if (found.is_server(placement)) {
      const auto inherited = env.get_int("LOCKSTEP_STORE_FD");
      found.listener = inherited ? FileDescriptor(*inherited) : bind_master(found.server, env, placement);
    }
    return found;
  }
  found.file = rendezvous_file(placement, env, options);
  if (placement.rank == 0) {
    const std::string address = own_address(placement, env);
    found.listener = bind_socket(address);
    found.server = {address, port_of(found.listener)};
  }
  return found;
}

// A file left by a run that died names a port where nobody listens any more, so it is read again until somebody does.
std::string reach_rank_zero(StoreRendezvous& at, milliseconds timeout) {
  const auto start = Clock::now();
  for (auto pause = kShortestPause;; pause = std::min(pause * 2, kLongestPause)) {
    if (at.file) {
      if (const auto found = at.file->read()) at.server = *found;
    }
    if (at.server.port != 0) {
      if (const auto own = local_address_towards(at.server, milliseconds(1000))) return *own;
    }
    if (Clock::now() - start > timeout) break;
    std::this_thread::sleep_for(pause);
  }
  const auto waited = fixed(seconds_between(start, Clock::now()), 0) + " s";
  if (at.server.port == 0) {
    throw Error(ErrorKind::kPeer,
                "rank 0 did not arrive: '" + at.file->path().string() + "' was not written in " + waited,
                "check that every node sees this folder and that rank 0's log shows no error");
  }
  throw Error(
      ErrorKind::kPeer,
      "rank 0 did not arrive: nobody listened at " + at.server.address + ":" + std::to_string(at.server.port) + " in " +
          waited,
      "check rank 0's log, and that the address can be reached from this node (LOCKSTEP_INTERFACE chooses another)");
}

c10::intrusive_ptr<c10d::Store> open_store(StoreRendezvous& at, bool is_server, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(at.server.port);
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = timeout;
  // Before 2.11 the libuv server ignores a bound socket's address and listens on every interface.
  options.useLibUV = LOCKSTEP_TORCH_VERSION >= 211;
  if (is_server) options.masterListenFd = at.listener.release();
  return c10::make_intrusive<c10d::TCPStore>(at.server.address, options);
}

// Rank 0 serves; the others wait until it does.
JoinedStore join_store(StoreRendezvous& at, const Placement& placement, milliseconds timeout) {
  const bool is_server = at.is_server(placement);
  JoinedStore joined;
  joined.own_address = is_server ? at.server.address : reach_rank_zero(at, timeout);
  joined.store = as_peer_error("met", [&] { return open_store(at, is_server, timeout); });
  // Published only now: who reads the file finds a store that answers.
  if (is_server && at.file) at.file->publish(at.server);
  return joined;
}

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

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

// Rank 0 counts arrivals and tells everybody the outcome, so that all ranks end with the same words.
void await_all(c10d::Store& store, const Placement& placement, milliseconds timeout) {
  const auto start = Clock::now();
  store.set("arrived/" + std::to_string(placement.rank), bytes_of("1"));
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
    store.set("outcome", bytes_of(outcome));
  }
  // The others wait a little longer than rank 0, to hear from it who is missing.
  store.wait({"outcome"}, timeout + std::chrono::seconds(10));
  const auto outcome = store.get("outcome");
  const std::string text(outcome.begin(), outcome.end());
  if (text == "met") return;
  store.set("heard/" + std::to_string(placement.rank), bytes_of("1"));
  if (placement.rank == 0) await_listeners(store, placement);
  throw Error(ErrorKind::kPeer, text,
              "check the missing ranks' logs; trainer.join_timeout (JoinOptions::join_timeout) or the variable "
              "LOCKSTEP_MEET_TIMEOUT changes how long is waited");
}

c10::intrusive_ptr<c10d::ProcessGroup> gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const Placement& placement, const std::string& own,
                                                  milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(own));
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                                             placement.rank, placement.world, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, placement.rank, placement.world);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

// A rank that is done at once must not close its connections, or the store with rank 0, while others still make theirs.
void await_connected(c10d::Store& store, const Placement& placement, milliseconds timeout) {
  const auto pass = [&](const std::string& gate, bool waits) {
    const std::string open = gate + "/open";
    if (store.add(gate, 1) == placement.world) store.set(open, bytes_of("1"));
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

// Gloo writes to sockets whose peer may have died, and leaves it to the program that this is an error and not its end:
// Python ignores the signal. A handler that somebody has set stays.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// Returns once every rank has joined the store and has made its connections to the others.
void connect_ranks(Group::Impl& impl, const Environment& env, const JoinOptions& options) {
  const auto& placement = impl.placement;
  const auto timeout = find_join_timeout(env, options);
  const std::string key = cache_key(placement, env, options);
  auto joined = store_cache().find(key);
  StoreRendezvous at;
  if (!joined) at = find_rendezvous(placement, env, options);
  // Also if a rank does not arrive: a file that stays would name a port where nobody listens.
  std::optional<RendezvousFileRemover> remover;
  if (at.file) remover.emplace(*at.file);
  if (!joined) joined = join_store(at, placement, timeout);
  // torchrun's agent keeps its store over restarts, and other programs' keys in it.
  const auto prefix =
      "lockstep/" + env.get("TORCHELASTIC_RESTART_COUNT").value_or("0") + "/" + std::to_string(++joined->joins);
  impl.store = c10::make_intrusive<c10d::PrefixStore>(prefix, joined->store);
  as_peer_error("met", [&] {
    await_all(*impl.store, placement, timeout);
    impl.process = gloo_group(impl.store, placement, joined->own_address, options.collective_timeout);
    await_connected(*impl.store, placement, timeout);
  });
  store_cache().insert(key, *joined);
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
  // Only now: a rank that has no device would leave the others waiting for it.
  on_every_rank(group, choose);
  connect_devices(group, options.share_device, options.collective_timeout);
  return group;
}

}  // namespace lockstep
