// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/descendants.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::vector<pid_t> children_of_this_process() {
  const std::string pid = std::to_string(::getpid());
  std::vector<pid_t> children;
  try {
    for (const auto& word : split(text_of_file("/proc/" + pid + "/task/" + pid + "/children"), ' ')) {
      if (const auto child = parsed_int<pid_t>(word)) children.push_back(*child);
    }
  } catch (const Error&) {
    // This kernel has no list of children in /proc. Processes that left their process group are then not ended.
  }
  return children;
}

void end_descendants(const std::vector<pid_t>& spare) {
  // When a process is killed, its children become children of this process, the subreaper. So repeat until no child is
  // left.
  while (true) {
    bool found = false;
    for (const pid_t child : children_of_this_process()) {
      if (std::find(spare.begin(), spare.end(), child) != spare.end()) continue;
      found = true;
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    if (!found) return;
  }
}

}  // namespace lockstep
