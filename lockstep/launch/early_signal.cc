// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/early_signal.h"

#include <csignal>

namespace lockstep {
namespace {

// Returns the signal mask from before the call.
sigset_t change(int how) {
  sigset_t warnings;
  sigset_t before;
  ::sigemptyset(&before);
  ::sigemptyset(&warnings);
  ::sigaddset(&warnings, SIGUSR1);
  ::sigaddset(&warnings, SIGUSR2);
  ::pthread_sigmask(how, &warnings, &before);
  return before;
}

}  // namespace

void hold_early_signal() { change(SIG_BLOCK); }

bool release_early_signal() {
  const sigset_t before = change(SIG_UNBLOCK);
  return ::sigismember(&before, SIGUSR1) == 1;
}

}  // namespace lockstep
