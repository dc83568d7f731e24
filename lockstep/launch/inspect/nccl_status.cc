// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/nccl_status.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "lockstep/base/clock.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/socket.h"

namespace lockstep {
namespace {

constexpr std::size_t kMost = 1 << 20;

/// Connects to an address of this node. Returns an empty descriptor if no process listens there.
FileDescriptor connected(const RasAddress& address, Deadline until) {
  for (const auto& numeric : resolve_host(address.host)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(address.port));
    if (::inet_pton(AF_INET, numeric.c_str(), &to.sin_addr) != 1) continue;
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    const int result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    if (result != 0 && (errno != EINPROGRESS || !await_ready(socket, POLLOUT, until))) continue;
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) return socket;
  }
  return {};
}

bool send_all(const FileDescriptor& socket, std::string_view text, Deadline until) {
  while (!text.empty()) {
    const auto sent = ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (!text.empty() && !await_ready(socket, POLLOUT, until)) return false;
  }
  return true;
}

/// Reads up to the end of a line. If `to_end`, reads until the other side closes the connection.
std::string received(const FileDescriptor& socket, bool to_end, Deadline until) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.size() < kMost && (to_end || text.find('\n') == std::string::npos)) {
    if (!await_ready(socket, POLLIN, until)) break;
    const auto got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

std::optional<RasAddress> ras_address(const Environment& env) {
  if (env.get("NCCL_RAS_ENABLE").value_or("1") == "0") return std::nullopt;
  RasAddress address;
  const auto given = env.get("NCCL_RAS_ADDR");
  if (!given) return address;
  const auto colon = given->rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parsed_int<int>(given->substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  address = {.host = given->substr(0, colon), .port = *port};
  return address;
}

std::optional<std::string> read_nccl_status(const RasAddress& address, std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  const auto socket = connected(address, until);
  if (!socket || !send_all(socket, "CLIENT PROTOCOL 2\n", until)) return std::nullopt;
  if (!received(socket, false, until).starts_with("SERVER PROTOCOL ")) return std::nullopt;
  if (!send_all(socket, "STATUS\n", until)) return std::nullopt;
  auto status = received(socket, true, until);
  if (status.empty()) return std::nullopt;
  return status;
}

std::string nccl_complaints(const std::string& status) {
  std::vector<std::string> kept;
  bool is_within = false;
  for (const auto& line : split(status, '\n')) {
    const auto text = trimmed(line);
    const bool is_title = text == "Errors" || text == "Warnings" || text == "Communicators";
    if (is_title) is_within = text != "Communicators";
    const bool is_rule = text.find_first_not_of("=-") == std::string_view::npos;
    if (is_within && !is_title && !is_rule) kept.emplace_back(text);
  }
  return joined(kept, "\n");
}

}  // namespace lockstep
