// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep {

std::vector<InterfaceAddress> addresses_here() {
  ifaddrs* head = nullptr;
  if (::getifaddrs(&head) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(head, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    auto address = numeric_text(at->ifa_addr);
    if (!address || (at->ifa_flags & IFF_UP) == 0) continue;
    const bool is_ipv6 = at->ifa_addr->sa_family == AF_INET6;
    if (is_ipv6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr)) continue;
    found.push_back({.interface = at->ifa_name, .address = std::move(*address), .is_ipv6 = is_ipv6});
  }
  std::stable_partition(found.begin(), found.end(), [](const auto& each) { return !each.is_ipv6; });
  return found;
}

std::vector<std::string> addresses_of_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* head = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &head) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(head, &::freeaddrinfo);
  std::vector<std::string> found;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    if (auto address = numeric_text(at->ai_addr)) found.push_back(std::move(*address));
  }
  return found;
}

std::optional<std::string> numeric_text(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text.data(), text.size());
  } else {
    return std::nullopt;
  }
  return text.data();
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

bool is_for_containers(const std::string& interface) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"docker", "virbr", "veth", "br-", "cni"};
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return interface.starts_with(prefix); });
}

FileDescriptor bound_everywhere(int port) {
  FileDescriptor fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool has_ipv6 = static_cast<bool>(fd);
  if (!has_ipv6) fd = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const int no = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  if (has_ipv6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  const int done = has_ipv6 ? ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&six), sizeof six)
                            : ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&four), sizeof four);
  if (done != 0) {
    const int reason = errno;
    fd.reset();
    errno = reason;
  }
  return fd;
}

int port_of(const FileDescriptor& socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  LOCKSTEP_ASSERT(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) == 0);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

bool is_free(int port) { return static_cast<bool>(bound_everywhere(port)); }

}  // namespace lockstep
