// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kRetryPause{20};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::optional<SocketAddress> parse_numeric(const std::string& address, int port) {
  SocketAddress out;
  auto* four = reinterpret_cast<sockaddr_in*>(&out.storage);
  if (::inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(port));
    out.length = sizeof(sockaddr_in);
    return out;
  }
  auto* six = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (::inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<std::uint16_t>(port));
    out.length = sizeof(sockaddr_in6);
    return out;
  }
  return std::nullopt;
}

// A numeric address needs no name look-up, and a look-up opens a dozen files. So this tries the numeric form first.
std::vector<SocketAddress> resolve(const std::string& host, int port) {
  if (const auto numeric = parse_numeric(host, port)) return {*numeric};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* head = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &head) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(head, &::freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    auto& each = found.emplace_back();
    std::memcpy(&each.storage, at->ai_addr, at->ai_addrlen);
    each.length = at->ai_addrlen;
  }
  return found;
}

FileDescriptor tcp_socket(int family) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return socket;
}

void make_non_blocking(const FileDescriptor& socket) {
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

// If nobody listens at a port in the ephemeral range, a connection attempt can get that very port and connect to
// itself.
bool is_connected_to_itself(const FileDescriptor& socket) {
  SocketAddress own;
  SocketAddress peer;
  own.length = peer.length = sizeof own.storage;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) == 0 &&
         own.length == peer.length && std::memcmp(&own.storage, &peer.storage, own.length) == 0;
}

/// Makes one attempt to connect. Returns an empty descriptor if nobody listens at the other end.
FileDescriptor try_connect(const SocketAddress& to, Deadline until) {
  FileDescriptor socket(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return socket;
  make_non_blocking(socket);
  if (::connect(socket.get(), to.get(), to.length) != 0) {
    if (errno != EINPROGRESS || !await_ready(socket, POLLOUT, until)) return FileDescriptor();
    int failure = 0;
    socklen_t size = sizeof failure;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0) return FileDescriptor();
  }
  return is_connected_to_itself(socket) ? FileDescriptor() : std::move(socket);
}

Error connection_error(const std::string& fact) {
  return Error(ErrorKind::kPeer, fact, "look for a firewall between the nodes, and at the nodes' own findings");
}

}  // namespace

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

std::vector<std::string> resolve_host(const std::string& host) {
  std::vector<std::string> found;
  for (const auto& each : resolve(host, 0)) {
    if (auto address = numeric_text(each.get())) found.push_back(std::move(*address));
  }
  return found;
}

FileDescriptor bind_socket(const std::string& address, int port) {
  const auto to = resolve(address, port);
  if (to.empty()) {
    throw Error(ErrorKind::kEnvironment, "'" + address + "' is not the address of any machine", "check MASTER_ADDR");
  }
  FileDescriptor socket = tcp_socket(to.front().storage.ss_family);
  if (!socket || ::bind(socket.get(), to.front().get(), to.front().length) != 0) {
    throw Error(ErrorKind::kEnvironment,
                "cannot bind " + address + ":" + std::to_string(port) + ": " + std::string(std::strerror(errno)),
                "choose another port with MASTER_PORT, or another interface with LOCKSTEP_INTERFACE");
  }
  return socket;
}

FileDescriptor bind_all_addresses(int port) {
  FileDescriptor socket = tcp_socket(AF_INET6);
  SocketAddress any;
  if (socket) {
    const int no = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    any = *parse_numeric("::", port);
  } else {
    socket = tcp_socket(AF_INET);
    any = *parse_numeric("0.0.0.0", port);
  }
  if (::bind(socket.get(), any.get(), any.length) != 0) {
    const int reason = errno;
    socket.reset();
    errno = reason;
  }
  return socket;
}

int port_of(const FileDescriptor& socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  LOCKSTEP_ASSERT(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) == 0);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

bool is_free(int port) { return static_cast<bool>(bind_all_addresses(port)); }

FileDescriptor listen_on(int port) {
  FileDescriptor socket = bind_all_addresses(port);
  if (!socket || ::listen(socket.get(), SOMAXCONN) != 0) {
    throw Error(ErrorKind::kEnvironment,
                "port " + std::to_string(port) + " cannot be listened on: " + std::strerror(errno),
                "set MASTER_PORT for all ranks to one that is free");
  }
  make_non_blocking(socket);
  return socket;
}

int milliseconds_left(Deadline until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

bool await_ready(const FileDescriptor& socket, short events, Deadline until) {
  pollfd one{.fd = socket.get(), .events = events, .revents = 0};
  while (true) {
    const int ready = ::poll(&one, 1, milliseconds_left(until));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (ready == 0 && Clock::now() >= until) return false;
  }
}

FileDescriptor accept_connection(const FileDescriptor& listener, Deadline until) {
  while (await_ready(listener, POLLIN, until)) {
    FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    make_non_blocking(socket);
    return socket;
  }
  return FileDescriptor();
}

FileDescriptor connect_until(const Endpoint& peer, Deadline until) {
  const auto addresses = resolve(peer.address, peer.port);
  if (addresses.empty()) throw connection_error("'" + peer.address + "' does not resolve");
  while (true) {
    for (const auto& each : addresses) {
      if (auto socket = try_connect(each, until)) return socket;
    }
    if (Clock::now() + kRetryPause >= until) {
      throw connection_error("no connection to " + peer.address + " port " + std::to_string(peer.port) + " in time");
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

FileDescriptor connect_once(const Endpoint& peer, Deadline until) {
  for (const auto& each : resolve(peer.address, peer.port)) {
    if (auto socket = try_connect(each, until)) return socket;
  }
  return FileDescriptor();
}

std::string local_address(const FileDescriptor& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  return numeric_text(reinterpret_cast<const sockaddr*>(&own)).value_or("");
}

std::optional<std::string> local_address_towards(const Endpoint& peer, std::chrono::milliseconds timeout) {
  const auto socket = connect_once(peer, Clock::now() + timeout);
  if (!socket) return std::nullopt;
  return local_address(socket);
}

std::string peer_address(const FileDescriptor& socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  std::array<char, NI_MAXHOST> text{};
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&peer), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) !=
          0) {
    return {};
  }
  const std::string address = text.data();
  return address.starts_with("::ffff:") ? address.substr(7) : address;
}

}  // namespace lockstep
