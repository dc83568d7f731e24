// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor_wire.h"

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
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/launch/network.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kMostBytes = 4U << 20U;
constexpr std::chrono::milliseconds kPause{20};

Error late(const std::string& what) {
  return Error(ErrorKind::kPeer, what, "look for a firewall between the nodes, and at the nodes' own findings");
}

int milliseconds_to(Deadline until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

void await(int fd, short events, Deadline until) {
  pollfd one{.fd = fd, .events = events, .revents = 0};
  while (true) {
    const int left = milliseconds_to(until);
    const int ready = ::poll(&one, 1, left);
    if (ready > 0) return;
    if (ready < 0 && errno == EINTR) continue;
    throw late("a node did not answer in time");
  }
}

void make_ready(const FileDescriptor& socket) {
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

std::size_t sent_now(int fd, std::span<const std::byte> bytes) {
  const auto done = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (done >= 0) return static_cast<std::size_t>(done);
  if (would_block()) return 0;
  throw late(std::string("a node left the meeting: ") + std::strerror(errno));
}

std::size_t received_now(int fd, std::span<std::byte> bytes) {
  const auto done = ::recv(fd, bytes.data(), bytes.size(), 0);
  if (done > 0) return static_cast<std::size_t>(done);
  if (done < 0 && would_block()) return 0;
  throw late(std::string("a node left the meeting") + (done < 0 ? std::string(": ") + std::strerror(errno) : ""));
}

void send_whole(const FileDescriptor& to, std::span<const std::byte> bytes, Deadline until) {
  while (!bytes.empty()) {
    await(to.get(), POLLOUT, until);
    bytes = bytes.subspan(sent_now(to.get(), bytes));
  }
}

void receive_whole(const FileDescriptor& from, std::span<std::byte> bytes, Deadline until) {
  while (!bytes.empty()) {
    await(from.get(), POLLIN, until);
    bytes = bytes.subspan(received_now(from.get(), bytes));
  }
}

/// One try. Empty where the other end does not listen yet.
FileDescriptor tried(const addrinfo& to, Deadline until) {
  FileDescriptor socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return socket;
  make_ready(socket);
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return FileDescriptor();
  await(socket.get(), POLLOUT, until);
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  return failure == 0 ? std::move(socket) : FileDescriptor();
}

}  // namespace

FileDescriptor listening_socket(int port) {
  FileDescriptor socket = bound_everywhere(port);
  if (!socket || ::listen(socket.get(), SOMAXCONN) != 0) {
    throw Error(ErrorKind::kEnvironment,
                "port " + std::to_string(port) + " cannot be listened on: " + std::strerror(errno),
                "set MASTER_PORT for all ranks to one that is free");
  }
  make_ready(socket);
  return socket;
}

FileDescriptor accepted(const FileDescriptor& listener, Deadline until) {
  while (true) {
    pollfd one{.fd = listener.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&one, 1, milliseconds_to(until));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return FileDescriptor();
    FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    make_ready(socket);
    return socket;
  }
}

FileDescriptor connected(const Endpoint& to, Deadline until) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* head = nullptr;
  const std::string where = to.address + " port " + std::to_string(to.port);
  if (::getaddrinfo(to.address.c_str(), std::to_string(to.port).c_str(), &hints, &head) != 0) {
    throw late("'" + to.address + "' does not resolve");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(head, &::freeaddrinfo);
  while (true) {
    for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
      try {
        if (auto socket = tried(*at, until)) return socket;
      } catch (const Error&) {
        break;
      }
    }
    if (Clock::now() + kPause >= until) throw late("no connection to " + where + " in time");
    std::this_thread::sleep_for(kPause);
  }
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

void send_message(const FileDescriptor& to, const nlohmann::json& message, Deadline until) {
  // A host name or a path may hold bytes that are no UTF-8.
  const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::uint32_t size = htonl(static_cast<std::uint32_t>(text.size()));
  send_whole(to, std::as_bytes(std::span(&size, 1)), until);
  send_whole(to, std::as_bytes(std::span(text)), until);
}

nlohmann::json received_message(const FileDescriptor& from, Deadline until) {
  std::uint32_t size = 0;
  receive_whole(from, std::as_writable_bytes(std::span(&size, 1)), until);
  size = ntohl(size);
  if (size > kMostBytes) throw late("a stranger called");
  std::string text(size, '\0');
  receive_whole(from, std::as_writable_bytes(std::span(text)), until);
  auto message = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) throw late("a stranger called");
  return message;
}

double exchange(const FileDescriptor& next, std::span<const std::byte> out, const FileDescriptor& prev,
                std::span<std::byte> in, Deadline until) {
  Clock::time_point first = Clock::now();
  bool has_begun = false;
  while (!out.empty() || !in.empty()) {
    std::array<pollfd, 2> ends = {pollfd{out.empty() ? -1 : next.get(), POLLOUT, 0},
                                  pollfd{in.empty() ? -1 : prev.get(), POLLIN, 0}};
    const int ready = ::poll(ends.data(), ends.size(), milliseconds_to(until));
    if (ready == 0) throw late("a node did not answer in time");
    if (ready < 0) continue;
    if (ends[0].revents != 0) out = out.subspan(sent_now(next.get(), out));
    if (ends[1].revents == 0) continue;
    if (!has_begun) first = Clock::now();
    has_begun = true;
    in = in.subspan(received_now(prev.get(), in));
  }
  return seconds_between(first, Clock::now());
}

}  // namespace lockstep
