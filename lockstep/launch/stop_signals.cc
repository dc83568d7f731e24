// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/stop_signals.h"

#include <array>
#include <csignal>

#include "lockstep/launch/early_signal.h"

namespace lockstep {
namespace {

constexpr std::array<int, 4> kSignals = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};

// A signal handler can access only global variables. This is the only one in Lockstep.
volatile std::sig_atomic_t g_arrived = 0;
std::array<struct sigaction, kSignals.size()> g_before{};

void remember(int number) {
  if (number == SIGINT && g_arrived == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  g_arrived = number;
}

}  // namespace

StopSignals::StopSignals() {
  g_arrived = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &g_before[i]);
  were_held_ = release_early_signal();
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (were_held_ && kSignals[i] != SIGINT) {
      std::signal(kSignals[i], SIG_IGN);
    } else {
      sigaction(kSignals[i], &g_before[i], nullptr);
    }
  }
}

bool StopSignals::arrived() { return g_arrived != 0; }

std::string StopSignals::name() {
  switch (g_arrived) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    default:
      return {};
  }
}

}  // namespace lockstep
