// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/io_error.h"

#include <cerrno>

#include "lockstep/base/file.h"

namespace lockstep {

Error io_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  std::string_view hint = "check the path and its permissions";
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      hint = "free some space, or put the run elsewhere with --run-dir; what was saved before is untouched";
      break;
    case EFBIG:
      hint = "raise the limit on a file's size (ulimit -f); what was saved before is untouched";
      break;
    case EIO:
      hint = "the device or the network behind this path fails; what was saved before is untouched";
      break;
    default:
      break;
  }
  return Error(ErrorKind::kIo, system_fact(action, path, error_number), hint);
}

}  // namespace lockstep
