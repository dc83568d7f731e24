// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/network.h"

namespace lockstep {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Names are looked up only where the address is no number: a look-up opens a dozen files.
std::optional<SocketAddress> socket_address(const std::string& address, int port) {
  SocketAddress out;
  auto* four = reinterpret_cast<sockaddr_in*>(&out.storage);
  if (inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(port));
    out.length = sizeof(sockaddr_in);
    return out;
  }
  auto* six = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<std::uint16_t>(port));
    out.length = sizeof(sockaddr_in6);
    return out;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* head = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &head) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(head, &freeaddrinfo);
  std::memcpy(&out.storage, head->ai_addr, head->ai_addrlen);
  out.length = head->ai_addrlen;
  return out;
}

}  // namespace

std::string own_address(const Environment& env, const Placement& placement) {
  std::string wanted;
  bool is_prefix = false;
  for (const std::string name : {"LOCKSTEP_INTERFACE", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const auto value = env.get(name);
    if (!value) continue;
    // NCCL takes "=name", "^name" and prefixes; what it must not use tells nothing of which one to listen on.
    wanted = split(*value, ',').front();
    is_prefix = name.starts_with("NCCL") && !wanted.starts_with('=');
    if (wanted.starts_with('=')) wanted.erase(0, 1);
    if (!wanted.starts_with('^') && !wanted.empty()) break;
    wanted.clear();
  }
  if (wanted.empty() && placement.nodes == 1) return "127.0.0.1";
  const auto up = addresses_here();
  if (!wanted.empty()) {
    const auto named = [&](const auto& each) { return each.interface == wanted; };
    const auto begun = [&](const auto& each) { return is_prefix && each.interface.starts_with(wanted); };
    auto it = std::find_if(up.begin(), up.end(), named);
    if (it == up.end()) it = std::find_if(up.begin(), up.end(), begun);
    if (it != up.end()) return it->address;
    std::vector<std::string> names;
    for (const auto& each : up) names.push_back(each.interface + " (" + each.address + ")");
    throw Error(ErrorKind::kEnvironment,
                "interface '" + wanted + "' has no address; those that have one: " + joined(names, ", "),
                "set LOCKSTEP_INTERFACE to one of them");
  }
  for (const auto& each : up) {
    if (!is_loopback(each.address) && !is_for_containers(each.interface)) return each.address;
  }
  return "127.0.0.1";
}

std::optional<std::string> numeric_address(const std::string& address) {
  const auto found = socket_address(address, 0);
  if (!found) return std::nullopt;
  return numeric_text(found->get());
}

FileDescriptor bound_socket(const std::string& address, int port) {
  const auto to = socket_address(address, port);
  if (!to) throw Error(ErrorKind::kEnvironment, "'" + address + "' is no address of any machine", "check MASTER_ADDR");
  FileDescriptor fd(::socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (!fd || ::bind(fd.get(), to->get(), to->length) != 0) {
    throw Error(ErrorKind::kEnvironment,
                "cannot bind " + address + ":" + std::to_string(port) + ": " + std::string(strerror(errno)),
                "choose another port with MASTER_PORT, or another interface with LOCKSTEP_INTERFACE");
  }
  return fd;
}

std::optional<std::string> address_towards(const Endpoint& peer, std::chrono::milliseconds patience) {
  const auto to = socket_address(peer.address, peer.port);
  if (!to) return std::nullopt;
  const FileDescriptor fd(::socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return std::nullopt;
  if (::connect(fd.get(), to->get(), to->length) != 0) {
    if (errno != EINPROGRESS) return std::nullopt;
    pollfd waiting{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(patience.count())) != 1) return std::nullopt;
    int error = 0;
    socklen_t length = sizeof(error);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return std::nullopt;
  }
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) return std::nullopt;
  return numeric_text(reinterpret_cast<const sockaddr*>(&own));
}

}  // namespace lockstep
