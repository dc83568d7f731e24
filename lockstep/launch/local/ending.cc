// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/ending.h"

#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep {

bool Ending::only_lost_peer() const { return code == exit_code(ErrorKind::kPeer); }

std::string Ending::text() const {
  if (signal == 0) return "ended with code " + std::to_string(code);
  return "ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

}  // namespace lockstep
