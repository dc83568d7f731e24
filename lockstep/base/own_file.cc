// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/own_file.h"

#include <dlfcn.h>

#include <string_view>

namespace lockstep {

std::filesystem::path own_file() {
  Dl_info info{};
  // For the main program, dladdr() gives only the word that started it, which may be no path. So /proc/self/exe is
  // read.
  if (::dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0 && info.dli_fname != nullptr) {
    const std::filesystem::path file(info.dli_fname);
    if (file.extension() == ".so") return std::filesystem::absolute(file);
  }
  return std::filesystem::read_symlink("/proc/self/exe");
}

}  // namespace lockstep
