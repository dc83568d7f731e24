// SPDX-License-Identifier: Apache-2.0
// Each rank waits for a byte from each of its neighbours, who send it only if they end well. If a connection closes
// before, the wait for the byte fails. Gloo has no call that asks about a wait without waiting. But one that was
// interrupted before it begins looks at the connection and then returns at once.
// Source: UnboundBuffer::waitRecv() in gloo/transport/tcp/unbound_buffer.cc. A byte that has come ends a wait for good.
#include "lockstep/comm/gloo/peer_watch.h"

#include <ATen/ops/zeros.h>

#include <chrono>
#include <exception>

namespace lockstep {
namespace {

// Gloo's collectives number their own messages, in a space apart.
constexpr int kTag = 1'819'241;
constexpr std::chrono::hours kNever{24};

std::vector<at::Tensor> one_byte() { return {at::zeros({1}, at::kByte)}; }

}  // namespace

PeerWatch::PeerWatch(c10d::Backend& gloo) : gloo_(gloo) {
  for (const int peer : watched_by(gloo.getRank(), gloo.getSize())) {
    auto tensors = one_byte();
    waits_.emplace_back(peer, gloo.recv(tensors, peer, kTag));
  }
}

std::optional<int> PeerWatch::find_lost() {
  for (const auto& [peer, wait] : waits_) {
    try {
      wait->abort();
      wait->wait(kNever);
    } catch (const std::exception&) {
      return peer;
    }
  }
  return std::nullopt;
}

// The neighbours wait already, so the byte is written at once. A neighbour that has ended needs none.
void PeerWatch::end_well() noexcept {
  for (const auto& [peer, wait] : waits_) {
    try {
      auto tensors = one_byte();
      sent_.push_back(gloo_.send(tensors, peer, kTag));
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

}  // namespace lockstep
