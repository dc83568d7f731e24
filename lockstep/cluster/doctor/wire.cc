// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/wire.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/json_text.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kMostBytes = 4U << 20U;

Error late(const std::string& what) {
  return Error(ErrorKind::kPeer, what, "look for a firewall between the nodes, and at the nodes' own findings");
}

void await(const FileDescriptor& socket, short events, Deadline until) {
  if (!await_ready(socket, events, until)) throw late("a node did not answer in time");
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
    await(to, POLLOUT, until);
    bytes = bytes.subspan(sent_now(to.get(), bytes));
  }
}

void receive_whole(const FileDescriptor& from, std::span<std::byte> bytes, Deadline until) {
  while (!bytes.empty()) {
    await(from, POLLIN, until);
    bytes = bytes.subspan(received_now(from.get(), bytes));
  }
}

}  // namespace

void send_message(const FileDescriptor& to, const nlohmann::json& message, Deadline until) {
  // A host name or a path may have bytes that are not UTF-8. JSON cannot hold them, so they are replaced.
  const std::string text = json_text(message);
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
    const int ready = ::poll(ends.data(), ends.size(), milliseconds_left(until));
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
