// SPDX-License-Identifier: Apache-2.0
// How connections are closed from another thread. LibTorch exports two functions of Gloo that no installed header
// declares. gloo::Context::getPair(rank) returns a reference to the pair of sockets to a rank.
// tcp::Pair::signalExceptionExternal(text) closes the pair, and every thread that waits on it throws. Both are declared
// here under their linker names. They are weak, so a LibTorch without them still loads. is_possible() is then false.
//
// shutdown() on the sockets would nearly always do. But in about 1 of 1000 cases a rank that is receiving a message
// then spins until Gloo's own time limit.
#include "lockstep/comm/gloo/breakable_gloo.h"

#include <cstdlib>
#include <exception>
#include <string_view>

namespace lockstep {

// The first argument of both functions is `this`.
[[gnu::weak]] void** pair_of_context(gloo::Context* context, int rank) asm("_ZN4gloo7Context7getPairEi");
[[gnu::weak]] std::exception_ptr signal_pair(void* pair, const std::string& why) asm(
    "_ZN4gloo9transport3tcp4Pair23signalExceptionExternalERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");

namespace {

template <typename Backend>
void set_limit(Backend& backend, std::chrono::milliseconds limit) {
  if constexpr (requires { backend.setTimeout(limit); }) backend.setTimeout(limit);
}

}  // namespace

bool BreakableGloo::is_possible() {
  // Other transports have other classes of pairs.
  const char* const transport = std::getenv("GLOO_DEVICE_TRANSPORT");
  const bool is_tcp =
      transport == nullptr || std::string_view(transport).empty() || std::string_view(transport) == "TCP";
  return is_tcp && pair_of_context != nullptr && signal_pair != nullptr;
}

void BreakableGloo::break_connections(const std::string& why) {
  for (const auto& context : contexts_) {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      if (void* const pair = *pair_of_context(context.get(), peer); pair != nullptr) signal_pair(pair, why);
    }
  }
}

void BreakableGloo::limit_collectives(std::chrono::milliseconds limit) { set_limit(*this, limit); }

}  // namespace lockstep
