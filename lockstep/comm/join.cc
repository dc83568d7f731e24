// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/join.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/launch/interfaces.h"
#include "lockstep/launch/socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetryPause{20};
constexpr milliseconds kListenersPatience{5000};

/// How this run's ranks find each other, and what this rank brings to it.
struct Meeting {
  Endpoint server;             ///< Where rank 0's store listens; unknown (port 0) until read from `file`.
  FileDescriptor listener;     ///< Rank 0's bound socket; none where another process serves.
  std::filesystem::path file;  ///< Published here; empty where a launcher said it.
  bool is_served = false;      ///< The launcher's own store serves: nobody binds.

  bool is_server(const Placement& placement) const { return placement.rank == 0 && !is_served; }
};

/// What this process has met its peers through.
struct Met {
  c10::intrusive_ptr<c10d::Store> store;
  std::string own;  ///< This node's address towards rank 0.
  int joins = 0;
};

/// By rank and meeting place. What a launcher gives, a bound port above all, can be used up once; a later join() in the
/// same process (a second training, say) goes through the first one's store.
class MetBefore {
 public:
  std::optional<Met> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = met_.find(key);
    return it == met_.end() ? std::nullopt : std::optional(it->second);
  }

  void remember(const std::string& key, const Met& met) {
    const std::lock_guard lock(mutex_);
    met_[key] = met;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Met> met_;
};

MetBefore& met_before() {
  static MetBefore met;
  return met;
}

// Empty for one rank, which has nobody to tell.
std::filesystem::path meeting_file(const Placement& placement, const Environment& env, const JoinOptions& options) {
  if (placement.world == 1) return {};
  if (placement.job.empty()) {
    throw Error(ErrorKind::kEnvironment,
                placement.source + " started " + std::to_string(placement.world) +
                    " ranks but neither MASTER_ADDR and MASTER_PORT nor a job is set, so they cannot find each other",
                "set MASTER_ADDR and MASTER_PORT, or start with `lockstep launch` or srun");
  }
  auto folder = options.meeting_folder;
  if (folder.empty()) folder = env.get("LOCKSTEP_RUNS").value_or("runs");
  std::string key = placement.source + "-" + placement.job + "-" + std::to_string(placement.restart);
  std::replace(key.begin(), key.end(), '/', '_');
  return folder / ".meeting" / key;
}

std::string meeting_place(const Placement& placement, const Environment& env, const JoinOptions& options) {
  if (!placement.master) return meeting_file(placement, env, options).string();
  return placement.master->address + ":" + std::to_string(placement.master->port);
}

// A name that this node takes for itself leads the others elsewhere: Debian gives each host's own name 127.0.1.1.
FileDescriptor master_socket(const Endpoint& master, const Environment& env, const Placement& placement) {
  const auto found = resolve_host(master.address);
  const bool misleads =
      placement.nodes > 1 && !found.empty() && found.front() != master.address && found.front().starts_with("127.");
  return bind_socket(misleads ? own_address(placement, env) : master.address, master.port);
}

Meeting meeting_of(const Placement& placement, const Environment& env, const JoinOptions& options) {
  Meeting meeting;
  if (placement.master) {
    meeting.server = *placement.master;
    // torchrun's agent keeps a store at this very port and expects workers to use it.
    meeting.is_served = env.get("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    if (meeting.is_server(placement)) {
      const auto inherited = env.get_int("LOCKSTEP_STORE_FD");
      meeting.listener = inherited ? FileDescriptor(*inherited) : master_socket(meeting.server, env, placement);
    }
    return meeting;
  }
  meeting.file = meeting_file(placement, env, options);
  if (placement.rank == 0) {
    const std::string address = own_address(placement, env);
    meeting.listener = bind_socket(address);
    meeting.server = {address, port_of(meeting.listener)};
  }
  return meeting;
}

void publish(const Meeting& meeting) {
  make_folder(meeting.file.parent_path());
  write_whole(meeting.file, meeting.server.address + " " + std::to_string(meeting.server.port) + "\n",
              /*durable=*/false);
}

std::optional<Endpoint> published(const std::filesystem::path& file) {
  try {
    const std::string text = text_of_file(file);
    const auto parts = split(trimmed(text), ' ');
    const auto port = parts.size() == 2 ? parsed_int<int>(parts[1]) : std::nullopt;
    if (port) return Endpoint{parts[0], *port};
  } catch (const Error&) {
    // Not there yet.
  }
  return std::nullopt;
}

// A file left by a run that died names a port where nobody listens any more, so it is read again until somebody does.
std::string reach_rank_zero(Meeting& meeting, milliseconds patience) {
  const auto start = Clock::now();
  while (true) {
    if (!meeting.file.empty()) {
      if (const auto found = published(meeting.file)) meeting.server = *found;
    }
    if (meeting.server.port != 0) {
      if (const auto own = local_address_towards(meeting.server, milliseconds(1000))) return *own;
    }
    if (Clock::now() - start > patience) break;
    std::this_thread::sleep_for(kRetryPause);
  }
  const auto waited = fixed(seconds_between(start, Clock::now()), 0) + " s";
  if (meeting.server.port == 0) {
    throw Error(ErrorKind::kPeer, "rank 0 did not arrive: '" + meeting.file.string() + "' was not written in " + waited,
                "check that every node sees this folder and that rank 0's log shows no error");
  }
  throw Error(
      ErrorKind::kPeer,
      "rank 0 did not arrive: nobody listened at " + meeting.server.address + ":" +
          std::to_string(meeting.server.port) + " in " + waited,
      "check rank 0's log, and that the address can be reached from this node (LOCKSTEP_INTERFACE chooses another)");
}

c10::intrusive_ptr<c10d::Store> open_store(Meeting& meeting, bool is_server, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(meeting.server.port);
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = timeout;
  // Before 2.11 the libuv server ignores a bound socket's address and listens on every interface.
  options.useLibUV = LOCKSTEP_TORCH_VERSION >= 211;
  if (is_server) options.masterListenFd = meeting.listener.release();
  return c10::make_intrusive<c10d::TCPStore>(meeting.server.address, options);
}

// Rank 0 serves; the others wait until it does.
Met met_through(Meeting& meeting, const Placement& placement, milliseconds patience) {
  const bool is_server = meeting.is_server(placement);
  Met met;
  met.own = is_server ? meeting.server.address : reach_rank_zero(meeting, patience);
  met.store = as_peer_error("met", [&] { return open_store(meeting, is_server, patience); });
  // Published only now: who reads the file finds a store that answers.
  if (is_server && !meeting.file.empty()) publish(meeting);
  return met;
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
    store.wait(keys, kListenersPatience);
  } catch (const std::exception&) {
    // One of them has died meanwhile.
  }
}

// Rank 0 counts arrivals and tells everybody the outcome, so that all ranks end with the same words.
void await_all(c10d::Store& store, const Placement& placement, milliseconds patience) {
  const auto start = Clock::now();
  store.set("arrived/" + std::to_string(placement.rank), bytes_of("1"));
  if (placement.rank == 0) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < placement.world; ++rank) keys.push_back("arrived/" + std::to_string(rank));
    std::string outcome = "met";
    try {
      store.wait(keys, patience);
    } catch (const std::exception&) {
      outcome = missing_ranks(store, placement) + " did not arrive within " +
                fixed(seconds_between(start, Clock::now()), 0) + " s (want " + std::to_string(placement.world) +
                " ranks)";
    }
    store.set("outcome", bytes_of(outcome));
  }
  // The others wait a little longer than rank 0, to hear from it who is missing.
  store.wait({"outcome"}, patience + std::chrono::seconds(10));
  const auto outcome = store.get("outcome");
  const std::string text(outcome.begin(), outcome.end());
  if (text == "met") return;
  store.set("heard/" + std::to_string(placement.rank), bytes_of("1"));
  if (placement.rank == 0) await_listeners(store, placement);
  throw Error(ErrorKind::kPeer, text,
              "check the missing ranks' logs; LOCKSTEP_MEET_TIMEOUT changes how many seconds are waited");
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
void await_connected(c10d::Store& store, const Placement& placement, milliseconds patience) {
  const auto pass = [&](const std::string& gate, bool waits) {
    const std::string open = gate + "/open";
    if (store.add(gate, 1) == placement.world) store.set(open, bytes_of("1"));
    if (waits) store.wait({open}, patience);
  };
  pass("connected", /*waits=*/true);
  pass("released", /*waits=*/placement.rank == 0);
}

milliseconds patience_of(const Environment& env, const JoinOptions& options) {
  const auto seconds = env.get_int("LOCKSTEP_MEET_TIMEOUT");
  return seconds ? milliseconds(std::chrono::seconds(*seconds)) : options.patience;
}

DeviceWish wish_of(const Placement& placement, const Environment& env, const JoinOptions& options) {
  return {.accelerator = options.accelerator,
          .local_rank = placement.local_rank,
          .local_world = placement.local_world,
          .index = placement.device,
          .are_hidden = shown_devices(env) == 0,
          .may_share = options.share_device};
}

// Gloo writes to sockets whose peer may have died, and leaves it to the program that this is an error and not its end:
// Python ignores the signal. A handler that somebody has set stays.
void keep_broken_pipes_from_ending_us() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
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
    chosen = chosen_device(wish_of(placement, env, options), this_node());
  };
  if (placement.world == 1 && !options.meets_alone) {
    choose();
    return Group(std::move(impl));
  }
  keep_broken_pipes_from_ending_us();
  const auto patience = patience_of(env, options);
  const std::string key = std::to_string(placement.rank) + " at " + meeting_place(placement, env, options);
  auto met = met_before().find(key);
  Meeting meeting;
  if (!met) {
    meeting = meeting_of(placement, env, options);
    met = met_through(meeting, placement, patience);
  }
  // torchrun's agent keeps its store over restarts, and other programs' keys in it.
  const auto prefix =
      "lockstep/" + env.get("TORCHELASTIC_RESTART_COUNT").value_or("0") + "/" + std::to_string(++met->joins);
  impl->store = c10::make_intrusive<c10d::PrefixStore>(prefix, met->store);
  as_peer_error("met", [&] {
    await_all(*impl->store, placement, patience);
    impl->process = gloo_group(impl->store, placement, met->own, options.timeout);
    await_connected(*impl->store, placement, patience);
  });
  met_before().remember(key, *met);
  if (meeting.is_server(placement) && !meeting.file.empty()) ::unlink(meeting.file.c_str());
  Group group(std::move(impl));
  // Only now: a rank that has no device would leave the others waiting for it.
  on_every_rank(group, choose);
  connect_devices(group, options.share_device, options.timeout);
  return group;
}

}  // namespace lockstep
