// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/log.h"

#include <unistd.h>

#include <exception>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep {

void Log::write(std::string_view label, std::string_view text) const {
  // On a terminal a progress bar may be on the current line. This erases it. The bar is drawn again below the message.
  std::string line = ::isatty(fd_) == 1 ? "\r\x1b[K" + prefix_ : prefix_;
  line.append(label).append(text).push_back('\n');
  // A failed write is ignored, since a log that cannot be written must not end the run.
  [[maybe_unused]] const auto put = ::write(fd_, line.data(), line.size());
}

int report_failure(const Log& log) {
  try {
    throw;
  } catch (const Error& error) {
    log.error(error.what());
    return exit_code(error.kind());
  } catch (const std::filesystem::filesystem_error& error) {
    log.error(io_error("look at", error.path1(), error.code().value()).what());
    return exit_code(ErrorKind::kIo);
  } catch (const std::exception& error) {
    log.error(std::string(error.what()) + "\n  hint: this is a bug in Lockstep; please report it");
    return exit_code(ErrorKind::kBug);
  }
}

}  // namespace lockstep
