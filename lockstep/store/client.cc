// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lockstep/base/text.h"
#include "lockstep/store/silent_peer.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLongestPollMs = 60'000;

}  // namespace

std::uint32_t next_generation(StoreClient& client, Clock::time_point until) {
  const auto number = [&](const StoreRequest& request) {
    const auto text = client.ask(request, until).at(0);
    const auto value = parsed_int<std::uint32_t>(text);
    if (!value) throw StoreError(StoreFault::kRefused, "the store's generation is '" + text + "', want a number");
    return *value;
  };
  const auto now = number({StoreOperation::kGeneration, 0, {}});
  return number({StoreOperation::kRaise, now + 1, {}});
}

StoreClient::StoreClient(FileDescriptor socket, const StoreIdentity& identity, Deadline until)
    : socket_(std::move(socket)) {
  find_silent_peer(socket_.get());
  const ClientHandshake handshake(identity, receive(kHelloBytes, until));
  send(handshake.answer(), until);
  if (!handshake.accepts(receive(kProofBytes, until))) {
    end(StoreFault::kLost, "the store's server does not know this run's secret",
        "look for another program at this address and port");
  }
}

std::vector<std::string> StoreClient::ask(const StoreRequest& request, Deadline until) {
  if (!socket_) end(StoreFault::kLost, "the connection to the store has ended");
  const auto frame = encode(request);
  if (frame.size() > kMostFrameBytes || request.fields.size() > kMostFields) {
    throw StoreError(StoreFault::kRefused, "a request of " + std::to_string(frame.size()) + " bytes is too long");
  }
  send(frame, until);
  FrameReader reader;
  reader.push(receive(4, until));
  auto message = reader.next();
  while (!message && !reader.is_broken()) {
    reader.push(receive(0, until));
    message = reader.next();
  }
  auto reply = message ? decode_reply(*message) : std::nullopt;
  if (!reply) end(StoreFault::kLost, "the store's reply cannot be read");
  if (reply->status == StoreStatus::kOver) throw StoreError(StoreFault::kOver, "this generation of the run has ended");
  if (reply->status == StoreStatus::kRefused) {
    throw StoreError(StoreFault::kRefused,
                     "the store refused a request: " + (reply->fields.empty() ? "" : reply->fields[0]));
  }
  return std::move(reply->fields);
}

void StoreClient::send(std::string_view bytes, Deadline until) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      await(POLLOUT, until);
    } else if (errno != EINTR) {
      end_by(errno);
    }
  }
}

// Receives exactly `count` bytes. If `count` is 0, it waits for the first byte and receives all that are available.
std::string StoreClient::receive(std::size_t count, Deadline until) {
  std::string bytes(count == 0 ? 65536 : count, '\0');
  std::size_t done = 0;
  while (done < std::max<std::size_t>(count, 1)) {
    const auto got = ::recv(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_DONTWAIT);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (got == 0) {
      end(StoreFault::kLost, "the store closed the connection", "look at the log of the process that serves it");
    } else if (errno == EAGAIN) {
      await(POLLIN, until);
    } else if (errno != EINTR) {
      end_by(errno);
    }
  }
  bytes.resize(done);
  return bytes;
}

void StoreClient::await(short events, Deadline until) {
  pollfd one{.fd = socket_.get(), .events = events, .revents = 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  if (left <= 0) end(StoreFault::kLate, "the store did not answer in time");
  ::poll(&one, 1, static_cast<int>(std::min<std::int64_t>(left, kLongestPollMs)));
}

void StoreClient::end_by(int error) {
  end(is_silence(error) ? StoreFault::kSilent : StoreFault::kLost,
      std::string("the connection to the store was lost: ") + std::strerror(error));
}

void StoreClient::end(StoreFault fault, std::string_view fact, std::string_view hint) {
  socket_.reset();
  throw StoreError(fault, fact, hint);
}

}  // namespace lockstep
