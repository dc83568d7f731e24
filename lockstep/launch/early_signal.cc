// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/early_signal.h"

#include <csignal>

namespace lockstep {
namespace {

void change(int how) {
  sigset_t warnings;
  ::sigemptyset(&warnings);
  ::sigaddset(&warnings, SIGUSR1);
  ::sigaddset(&warnings, SIGUSR2);
  ::pthread_sigmask(how, &warnings, nullptr);
}

}  // namespace

void hold_early_signal() { change(SIG_BLOCK); }

void release_early_signal() { change(SIG_UNBLOCK); }

}  // namespace lockstep
