// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/log.h"

#include <unistd.h>

namespace lockstep {

void Log::write(std::string_view label, std::string_view text) const {
  // On a terminal a progress bar may stand on this line. It is drawn again below.
  std::string line = ::isatty(fd_) == 1 ? "\r\x1b[K" + prefix_ : prefix_;
  line.append(label).append(text).push_back('\n');
  // A log that cannot be written must not end the run.
  [[maybe_unused]] const auto put = ::write(fd_, line.data(), line.size());
}

}  // namespace lockstep
