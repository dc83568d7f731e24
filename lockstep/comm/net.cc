// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

struct Interface {
  std::string name;
  std::string address;
  bool is_ipv6 = false;
};

std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &four->sin_addr, text.data(), text.size());
  } else {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &six->sin6_addr, text.data(), text.size());
  }
  return text.data();
}

// Link-local IPv6 addresses are left out: they mean nothing without a scope.
std::vector<Interface> interfaces_up() {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(head, &freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr)) {
      continue;
    }
    found.push_back({at->ifa_name, numeric(at->ifa_addr), family == AF_INET6});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.is_ipv6 < b.is_ipv6; });
  return found;
}

bool is_for_containers(const std::string& name) {
  const std::array<std::string_view, 5> kPrefixes = {"docker", "virbr", "veth", "br-", "cni"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](auto prefix) { return name.starts_with(prefix); });
}

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
  const auto up = interfaces_up();
  if (!wanted.empty()) {
    const auto named = [&](const Interface& each) { return each.name == wanted; };
    const auto begun = [&](const Interface& each) { return is_prefix && each.name.starts_with(wanted); };
    auto it = std::find_if(up.begin(), up.end(), named);
    if (it == up.end()) it = std::find_if(up.begin(), up.end(), begun);
    if (it != up.end()) return it->address;
    std::vector<std::string> names;
    for (const auto& each : up) names.push_back(each.name + " (" + each.address + ")");
    throw Error(ErrorKind::kEnvironment,
                "interface '" + wanted + "' has no address; those that have one: " + joined(names, ", "),
                "set LOCKSTEP_INTERFACE to one of them");
  }
  for (const auto& each : up) {
    if (each.address != "127.0.0.1" && each.address != "::1" && !is_for_containers(each.name)) return each.address;
  }
  return "127.0.0.1";
}

std::optional<std::string> numeric_address(const std::string& address) {
  const auto found = socket_address(address, 0);
  if (!found) return std::nullopt;
  return numeric(found->get());
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

int port_of(const FileDescriptor& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  LOCKSTEP_ASSERT(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) == 0);
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
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
  return numeric(reinterpret_cast<const sockaddr*>(&own));
}

}  // namespace lockstep
