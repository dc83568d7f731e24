// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/join_store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/gloo/store_adapter.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/launch/interfaces.h"
#include "lockstep/launch/rendezvous_file.h"
#include "lockstep/launch/socket.h"
#include "lockstep/store/connections.h"
#include "lockstep/store/secret.h"
#include "lockstep/store/server.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestPause{2};
constexpr milliseconds kLongestPause{100};
constexpr milliseconds kConnectTimeout{1000};
constexpr milliseconds kHandshakeTimeout{5000};

/// The address of the store, and what this rank needs to connect to it or to serve it.
struct StoreRendezvous {
  Endpoint server;                     ///< Port 0 until it is read from `file`.
  FileDescriptor listener;             ///< Rank 0's bound socket. Empty if another process serves.
  std::optional<RendezvousFile> file;  ///< None if the launcher gave the address.
  std::optional<SecretFile> secret;    ///< None if ranks share no secret.
  std::string start;                   ///< This start's name, the same on all ranks.
  bool is_served = false;              ///< True if the launcher's store serves, so that nobody binds.
};

/// Removes published files when the last owner of this object is destroyed.
struct Meeting {
  std::optional<RendezvousFile> file;
  std::optional<SecretFile> secret;

  Meeting() = default;
  ~Meeting() {
    if (secret) secret->remove();
    if (file) file->remove();
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
};

/// Joined stores by rank and rendezvous.
class StoreCache {
 public:
  std::optional<JoinedStore> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = stores_.find(key);
    if (it == stores_.end()) return std::nullopt;
    ++it->second.joins;
    return it->second;
  }

  void insert(const std::string& key, JoinedStore joined) {
    const std::lock_guard lock(mutex_);
    joined.meeting.reset();
    stores_[key] = std::move(joined);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, JoinedStore> stores_;
};

StoreCache& store_cache() {
  static StoreCache cache;
  return cache;
}

// Returns no address if there is one rank, which needs none.
std::optional<RendezvousFile> rendezvous_file(const Placement& placement, const Environment& env,
                                              const std::filesystem::path& run_dir) {
  if (placement.master || placement.world == 1) return std::nullopt;
  return RendezvousFile::for_ranks(placement, rendezvous_folder(run_dir, env));
}

std::string cache_key(const Placement& placement, const std::optional<RendezvousFile>& file) {
  std::string where = "one rank";
  if (const auto& master = placement.master) where = master->address + ":" + std::to_string(master->port);
  if (file) where = file->path().string();
  return std::to_string(placement.rank) + " at " + where;
}

// If rank 0's host name resolves to loopback, the other ranks would connect to themselves. Debian resolves each host's
// own name to 127.0.1.1.
FileDescriptor bind_master(const Endpoint& master, const Environment& env, const Placement& placement) {
  const auto found = resolve_host(master.address);
  const bool misleads =
      placement.nodes > 1 && !found.empty() && found.front() != master.address && found.front().starts_with("127.");
  return bind_socket(misleads ? own_address(placement, env) : master.address, master.port);
}

bool is_agents_store(const Environment& env) { return env.get("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True"; }

StoreRendezvous find_rendezvous(const Placement& placement, const Environment& env,
                                const std::filesystem::path& run_dir) {
  StoreRendezvous found;
  found.file = rendezvous_file(placement, env, run_dir);
  // The name of the start uses the port and not the address, since nodes may write the same address in different ways.
  found.start = found.file         ? found.file->path().filename().string()
                : placement.master ? "port " + std::to_string(placement.master->port)
                                   : "one rank";
  if (const auto folder = env.get("LOCKSTEP_MEETING"); folder && !is_agents_store(env)) {
    found.secret.emplace(*folder);
    found.is_served = env.get("LOCKSTEP_STORE_SERVED").has_value();
  } else if (found.file) {
    found.secret.emplace(secret_folder(run_dir, found.start, env));
  }
  // torchrun's agent serves a store at this port, and expects its workers to use that store.
  found.is_served = found.is_served || is_agents_store(env);
  if (placement.master) {
    found.server = *placement.master;
    if (placement.rank == 0 && !found.is_served) {
      const auto inherited = env.get_int("LOCKSTEP_STORE_FD");
      found.listener = inherited ? FileDescriptor(*inherited) : bind_master(found.server, env, placement);
    }
  } else if (placement.rank == 0) {
    const std::string address = own_address(placement, env);
    found.listener = bind_socket(address);
    found.server = {address, port_of(found.listener)};
  }
  return found;
}

[[noreturn]] void say_not_arrived(const StoreRendezvous& at, const std::string& reason, Clock::time_point start) {
  const auto waited = fixed(seconds_between(start, Clock::now()), 0) + " s";
  if (at.server.port == 0) {
    throw Error(ErrorKind::kPeer,
                "rank 0 did not arrive: '" + at.file->path().string() + "' was not written in " + waited,
                "check that every node sees this folder and that rank 0's log shows no error");
  }
  const std::string where = at.server.address + ":" + std::to_string(at.server.port);
  if (!reason.empty()) {
    throw Error(ErrorKind::kPeer, "rank 0 did not arrive in " + waited + ": at " + where + ", " + reason,
                "check rank 0's log, and that all nodes see the folder of the secret (--run-dir, LOCKSTEP_CACHE)");
  }
  throw Error(
      ErrorKind::kPeer, "rank 0 did not arrive: nobody listened at " + where + " in " + waited,
      "check rank 0's log, and that the address can be reached from this node (LOCKSTEP_INTERFACE chooses another)");
}

/// Calls `attempt` until it succeeds. A file that a dead run left may name a port where nobody listens, or another run.
/// So the file is read again before each attempt. If `attempt` fails, it returns false and gives its reason.
void until_reached(StoreRendezvous& at, milliseconds timeout, const std::function<bool(std::string& reason)>& attempt) {
  const auto start = Clock::now();
  std::string reason;
  for (auto pause = kShortestPause;; pause = std::min(pause * 2, kLongestPause)) {
    if (at.file) {
      if (const auto found = at.file->read()) at.server = *found;
    }
    if (at.server.port != 0 && attempt(reason)) return;
    if (Clock::now() - start > timeout) say_not_arrived(at, reason, start);
    std::this_thread::sleep_for(pause);
  }
}

c10::intrusive_ptr<c10d::Store> open_tcp_store(StoreRendezvous& at, bool is_server, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(at.server.port);
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = timeout;
  // Before PyTorch 2.11, the libuv server ignores the address of the bound socket and listens on every interface.
  options.useLibUV = LOCKSTEP_TORCH_VERSION >= 211;
  if (is_server) options.masterListenFd = at.listener.release();
  return c10::make_intrusive<c10d::TCPStore>(at.server.address, options);
}

void warn_of_open_store(const StoreRendezvous& at, const Placement& placement) {
  if (placement.rank != 0 || placement.world == 1) return;
  Log().warning("the ranks share no secret: anyone who reaches port " + std::to_string(at.server.port) +
                " of rank 0's node can disturb this run; start it with lockstep launch, submit or exec");
}

// Rank 0 or torchrun's agent serves the store. The other ranks wait until it is served.
JoinedStore join_tcp_store(StoreRendezvous& at, const Placement& placement, milliseconds timeout) {
  const bool is_server = placement.rank == 0 && !at.is_served;
  JoinedStore joined;
  joined.own_address = at.server.address;
  if (!is_server) {
    until_reached(at, timeout, [&](std::string&) {
      const auto own = local_address_towards(at.server, kConnectTimeout);
      joined.own_address = own.value_or("");
      return own.has_value();
    });
  }
  joined.store = as_peer_error("met", [&] { return open_tcp_store(at, is_server, timeout); });
  warn_of_open_store(at, placement);
  return joined;
}

/// Connects to the store that answers at `at`. Returns false with the reason if it is not there yet. If the address
/// comes from a variable, it cannot change. Another run's store at that address is then an error at once.
bool try_to_connect(StoreRendezvous& at, JoinedStore& joined, milliseconds timeout, std::string& reason) {
  const auto first = std::make_shared<FileDescriptor>(connect_once(at.server, Clock::now() + kConnectTimeout));
  if (!*first) {
    reason.clear();
    return false;
  }
  const auto secret = at.secret->read();
  if (!secret) {
    reason = "'" + at.secret->path().string() + "' was not written";
    return false;
  }
  joined.own_address = local_address(*first);
  const auto connections = std::make_shared<StoreConnections>(
      [server = at.server, first](StoreClient::Deadline until) {
        return *first ? std::move(*first) : connect_once(server, std::min(until, Clock::now() + kConnectTimeout));
      },
      StoreIdentity{*secret, at.start});
  try {
    connections->open(Clock::now() + kHandshakeTimeout);
  } catch (const StoreError& error) {
    reason = error.fact();
    return false;
  } catch (const Error& error) {
    if (!at.file) throw;
    reason = error.fact();
    return false;
  }
  joined.store = c10::make_intrusive<StoreAdapter>(connections, timeout);
  joined.connections = connections;
  return true;
}

JoinedStore join_closed_store(StoreRendezvous& at, const Placement& placement, milliseconds timeout) {
  use_batched_gloo_keys();
  JoinedStore joined;
  std::shared_ptr<StoreServer> server;
  auto meeting = std::make_shared<Meeting>();
  if (placement.rank == 0 && !at.is_served) {
    meeting->secret.emplace(std::move(*at.secret));
    at.secret.emplace(meeting->secret->path().parent_path());
    const auto secret = meeting->secret->create();
    server = std::make_shared<StoreServer>(std::move(at.listener), StoreIdentity{secret, at.start});
    // The address is published only now, so that a rank that reads the file finds a store that answers.
    if (at.file) meeting->file.emplace(*at.file).publish(at.server);
  }
  const bool is_server = server != nullptr;
  until_reached(at, timeout, [&](std::string& reason) { return try_to_connect(at, joined, timeout, reason); });
  if (is_server) {
    joined.own_address = at.server.address;
    static_cast<StoreAdapter&>(*joined.store).keep(std::move(server));
  }
  joined.meeting = std::move(meeting);
  return joined;
}

}  // namespace

JoinedStore join_store(const Placement& placement, const Environment& env, const std::filesystem::path& run_dir,
                       milliseconds timeout) {
  const auto key = cache_key(placement, rendezvous_file(placement, env, run_dir));
  if (auto known = store_cache().find(key)) return *known;
  auto at = find_rendezvous(placement, env, run_dir);
  auto joined = at.secret ? join_closed_store(at, placement, timeout) : join_tcp_store(at, placement, timeout);
  joined.joins = 1;
  store_cache().insert(key, joined);
  return joined;
}

}  // namespace lockstep
