// SPDX-License-Identifier: Apache-2.0
// Each rank waits for one message from each of its neighbours: why it ends, or nothing if it ends well. If a connection
// closes before, the wait fails. Gloo has no call that asks about a wait without waiting. But one that was interrupted
// before it begins looks at the connection and then returns at once.
// Source: UnboundBuffer::waitRecv() in gloo/transport/tcp/unbound_buffer.cc. An interrupted wait does not say whether
// the message has come. Its last byte does: once it is there, a wait without an interruption returns at once.
#include "lockstep/comm/gloo/peer_watch.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>

namespace lockstep {
namespace {

// Gloo's collectives number their own messages, in a space apart.
constexpr int kTag = 1'819'241;
constexpr int kTagOfNoMessage = kTag + 1;
constexpr std::chrono::hours kNever{24};

// Gloo's messages have a size that both ends know: the reason with a zero after it, and a mark.
constexpr std::int64_t kMessageBytes = 257;

at::Tensor no_message() { return at::zeros({kMessageBytes}, at::kByte); }

at::Tensor message_of(const std::string& reason) {
  auto message = no_message();
  auto* const bytes = message.data_ptr<std::uint8_t>();
  std::copy_n(reason.begin(), std::min<std::size_t>(reason.size(), kMessageBytes - 2), bytes);
  bytes[kMessageBytes - 1] = 1;
  return message;
}

// A thread of Gloo's may be writing the message.
bool is_marked(const at::Tensor& message) {
  auto* const bytes = message.data_ptr<std::uint8_t>();
  return std::atomic_ref(bytes[kMessageBytes - 1]).load(std::memory_order_acquire) != 0;
}

std::string reason_in(const at::Tensor& message) {
  return reinterpret_cast<const char*>(message.const_data_ptr<std::uint8_t>());
}

}  // namespace

PeerWatch::PeerWatch(c10d::Backend& gloo) : gloo_(gloo) {
  for (const int peer : watched_by(gloo.getRank(), gloo.getSize())) {
    const auto message = no_message();
    std::vector<at::Tensor> tensors{message};
    waits_.push_back({.peer = peer, .message = message, .work = gloo.recv(tensors, peer, kTag)});
  }
}

std::optional<LostPeer> PeerWatch::find_lost() {
  for (auto& [peer, message, work, has_come] : waits_) {
    if (!has_come) {
      try {
        if (!is_marked(message)) work->abort();
        has_come = work->wait(kNever);
      } catch (const std::exception&) {
        return LostPeer{peer, {}};
      }
    }
    if (!has_come) continue;
    if (auto reason = reason_in(message); !reason.empty()) return LostPeer{peer, std::move(reason)};
  }
  return std::nullopt;
}

void PeerWatch::end_well() noexcept { send({}); }

void PeerWatch::leave(const std::string& reason) noexcept { send(reason); }

// The neighbours wait already, so the message is written at once. A neighbour that has ended needs none.
void PeerWatch::send(const std::string& reason) noexcept {
  if (!sent_.empty()) return;
  for (const auto& wait : waits_) {
    try {
      std::vector<at::Tensor> tensors{message_of(reason)};
      sent_.push_back(gloo_.send(tensors, wait.peer, kTag));
    } catch (const std::exception&) {
      continue;
    }
  }
}

std::vector<int> watched_by(int rank, int world) {
  std::vector<int> ranks;
  if (rank > 0) ranks.push_back((rank - 1) / 2);
  for (const int child : {2 * rank + 1, 2 * rank + 2}) {
    if (child < world) ranks.push_back(child);
  }
  return ranks;
}

// Gloo begins to receive only over a connection that is open, and nobody sends this message.
// Source: Pair::recv() in gloo/transport/tcp/pair.cc.
std::vector<int> closed_connections(c10d::Backend& gloo) {
  std::vector<int> closed;
  std::vector<at::Tensor> message{at::zeros({1}, at::kByte)};
  for (int rank = 0; rank < gloo.getSize(); ++rank) {
    if (rank == gloo.getRank()) continue;
    try {
      gloo.recv(message, rank, kTagOfNoMessage);
    } catch (const std::exception&) {
      closed.push_back(rank);
    }
  }
  return closed;
}

}  // namespace lockstep
