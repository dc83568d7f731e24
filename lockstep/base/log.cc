// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/log.h"

#include <unistd.h>

namespace lockstep {

void Log::write(std::string_view label, std::string_view text) const {
  // On a terminal a progress bar may be on the current line. This erases it. The bar is drawn again below the message.
  std::string line = ::isatty(fd_) == 1 ? "\r\x1b[K" + prefix_ : prefix_;
  line.append(label).append(text).push_back('\n');
  // A failed write is ignored, since a log that cannot be written must not end the run.
  [[maybe_unused]] const auto put = ::write(fd_, line.data(), line.size());
}

}  // namespace lockstep
