// SPDX-License-Identifier: Apache-2.0
// How ranks find rank 0 before they can talk. Every rank computes the address and the port from the same facts, so
// usually nothing is exchanged. MASTER_ADDR and MASTER_PORT come first. Ranks on one node use loopback. Otherwise the
// address is that of rank 0's host by name, and the port is one that Slurm reserved or follows from the job's id.
//
// If the host's name does not resolve to an address, rank 0 publishes its own one in a file that all nodes see. The
// other ranks read the file with growing pauses, up to LOCKSTEP_MEET_TIMEOUT. The file is written completely and then
// renamed, so no one reads a part of it.
//
// Files of killed jobs may remain. Their names hold the job and its restart count, so that another start does not read
// them, and rank 0 removes old ones. Rank 0 checks that the port is free, since another job on the node may have it.
// The address only says where to connect. Lockstep's ranks also prove by the store's handshake that they belong to the
// run.
#include "lockstep/launch/rendezvous.h"

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/interfaces.h"
#include "lockstep/launch/socket.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kFirstPort = 18432;
constexpr int kPorts = 12288;
constexpr milliseconds kShortestPause{2};
constexpr milliseconds kLongestPause{100};
constexpr std::chrono::hours kLongAgo{1};

/// Returns an IPv4 address first, as compute nodes often have IPv6 names without routes. Loopback is left out, since a
/// node's own name often means that in /etc/hosts.
std::optional<std::string> address_of(const std::string& host) {
  const auto all = resolve_host(host);
  for (const bool wants_ipv6 : {false, true}) {
    for (const auto& address : all) {
      const bool is_ipv6 = address.find(':') != std::string::npos;
      if (is_ipv6 == wants_ipv6 && !is_loopback(address)) return address;
    }
  }
  return std::nullopt;
}

int port_of_start(const Placement& at, const Environment& env) {
  const auto agreed = agreed_port(at, env);
  return agreed ? *agreed : unclaimed_port();
}

std::optional<int> reserved_port(const Placement& at, const Environment& env) {
  const auto reserved = env.get("SLURM_STEP_RESV_PORTS");
  if (!reserved || at.source != "slurm") return std::nullopt;
  const auto last = parsed_int<int>(split(split(*reserved, ',').back(), '-').back());
  if (last && *last >= 1 && *last <= 65535) return *last;
  throw Error(ErrorKind::kEnvironment, "SLURM_STEP_RESV_PORTS='" + *reserved + "' is not a list of ports",
              "set MASTER_PORT to a free port");
}

Endpoint await_published(const RendezvousFile& file, const Environment& env) {
  const std::chrono::seconds timeout(env.get_int("LOCKSTEP_MEET_TIMEOUT").value_or(300));
  const auto start = Clock::now();
  for (auto pause = kShortestPause; Clock::now() - start < timeout; pause = std::min(pause * 2, kLongestPause)) {
    if (const auto found = file.read()) return *found;
    std::this_thread::sleep_for(pause);
  }
  throw Error(ErrorKind::kPeer,
              "rank 0 did not publish its address: '" + file.path().string() + "' was not written within " +
                  std::to_string(timeout.count()) + " s",
              "check rank 0's log, and that all nodes see this folder; or set MASTER_ADDR to the address of rank 0's "
              "node");
}

/// Removes old rendezvous files here. The agent normally removes them, but not if it was killed or its tasks were
/// short.
void remove_old_files(const fs::path& folder) {
  std::error_code none;
  for (const auto& name : names_in(folder)) {
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(folder / name, none);
    if (name.starts_with("exec-") && age > kLongAgo) fs::remove(folder / name, none);
  }
}

Rendezvous published_rendezvous(const Placement& at, const Environment& env, const TaskSettings& settings,
                                const fs::path& folder) {
  auto file = RendezvousFile::for_program(at, env, folder);
  if (at.rank != 0) return {.master = await_published(file, env)};
  int port = port_of_start(at, env);
  // The other ranks read the port from the file, so any free port will do.
  if (!env.get("MASTER_PORT") && !is_free(port)) port = unclaimed_port();
  const Endpoint master{own_address(at, env, settings.network.interfaces), port};
  remove_old_files(folder);
  file.publish(master);
  return {.master = master, .published = std::move(file)};
}

void check_port(const Placement& at, const Environment& env, int port) {
  if (at.rank != 0 || is_free(port)) return;
  const std::string origin = env.get("MASTER_PORT")                                     ? "MASTER_PORT"
                             : at.source == "slurm" && env.get("SLURM_STEP_RESV_PORTS") ? "SLURM_STEP_RESV_PORTS"
                                                                                        : "job " + at.job;
  throw Error(
      ErrorKind::kEnvironment, "port " + std::to_string(port) + " (from " + origin + ") is taken on rank 0's node",
      "set MASTER_PORT for all ranks to one that is free, for example MASTER_PORT=" + std::to_string(unclaimed_port()));
}

/// Returns the address if every rank can compute it without a file.
std::optional<std::string> known_address(const Placement& at, const Environment& env, const TaskSettings& settings) {
  if (const auto given = env.get("MASTER_ADDR")) return given;
  if (at.nodes == 1) return "127.0.0.1";
  const auto host = main_host(at, env);
  if (!host) return std::nullopt;
  const auto& suffix = settings.network.host_suffix;
  auto address = address_of(*host + suffix);
  return address || suffix.empty() ? address : address_of(*host);
}

}  // namespace

int unclaimed_port() {
  std::random_device drawn;
  const int first = std::uniform_int_distribution<int>(0, kPorts - 1)(drawn);
  for (int i = 0; i < kPorts; ++i) {
    const int port = kFirstPort + (first + i) % kPorts;
    if (is_free(port)) return port;
  }
  throw Error(ErrorKind::kEnvironment,
              "no port of this machine from " + std::to_string(kFirstPort) + " to " +
                  std::to_string(kFirstPort + kPorts - 1) + " is free",
              "end what holds them (ss -tan), or set MASTER_PORT");
}

std::optional<int> agreed_port(const Placement& at, const Environment& env) {
  if (at.master) return at.master->port;
  if (const auto given = env.get_int("MASTER_PORT")) {
    if (*given >= 1 && *given <= 65535) return *given;
    throw Error(ErrorKind::kEnvironment, "MASTER_PORT='" + std::to_string(*given) + "' is not a port, want 1 to 65535",
                "choose a free port, for example 29500");
  }
  if (const auto reserved = reserved_port(at, env)) return reserved;
  if (!at.job.empty()) {
    std::uint32_t hash = 2166136261U;  // FNV-1a
    for (const char c : at.job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    return kFirstPort + static_cast<int>(hash % kPorts);
  }
  if (at.world == 1) return std::nullopt;
  throw Error(ErrorKind::kEnvironment,
              at.source + " started " + std::to_string(at.world) +
                  " ranks, but neither MASTER_PORT nor a job is set, so they cannot agree on a port",
              "set MASTER_ADDR and MASTER_PORT, or start with `lockstep launch` or srun");
}

std::optional<std::string> main_host(const Placement& at, const Environment& env) {
  if (at.hosts.empty() || env.get("SLURM_DISTRIBUTION").value_or("").starts_with("arbitrary")) return std::nullopt;
  return at.hosts.front();
}

Rendezvous rendezvous_of(const Placement& at, const Environment& env, const TaskSettings& settings,
                         const fs::path& folder) {
  if (at.master) return {.master = *at.master};
  const auto known = known_address(at, env, settings);
  if (!known) return published_rendezvous(at, env, settings, folder);
  const int port = port_of_start(at, env);
  check_port(at, env, port);
  return {.master = {*known, port}};
}

Rendezvous expected_rendezvous(const Placement& at, const Environment& env, const TaskSettings& settings) {
  if (at.master) return {.master = *at.master};
  const std::string unresolved = at.rank == 0       ? own_address(at, env, settings.network.interfaces)
                                 : at.hosts.empty() ? std::string("rank-0")
                                                    : at.hosts.front();
  return {.master = {known_address(at, env, settings).value_or(unresolved), port_of_start(at, env)}};
}

}  // namespace lockstep
