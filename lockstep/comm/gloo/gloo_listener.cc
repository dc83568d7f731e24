// SPDX-License-Identifier: Apache-2.0
// How Gloo's listening socket is closed while Gloo still has its descriptor. dup2() puts another open file in the
// descriptor's place. The socket then has no reference left, so the kernel closes it, and epoll forgets it. Gloo later
// closes the descriptor, which is the other file by then. After a close() instead, some other file could get the same
// number, and Gloo would close that file. A shutdown() makes Gloo's loop end the process ("accept: Invalid argument").
#include "lockstep/comm/gloo/gloo_listener.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::set<int> listening_sockets() {
  std::set<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const auto fd = parsed_int<int>(entry->d_name);
    int is_listening = 0;
    socklen_t size = sizeof is_listening;
    if (fd && ::getsockopt(*fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) == 0 && is_listening != 0) {
      found.insert(*fd);
    }
  }
  return found;
}

void GlooListener::find() {
  for (const int fd : listening_sockets()) {
    if (!before_.contains(fd)) found_.insert(fd);
  }
}

void GlooListener::refuse_strangers() {
  const FileDescriptor nothing(::eventfd(0, EFD_CLOEXEC));
  for (const int fd : found_) {
    if (nothing) ::dup3(nothing.get(), fd, O_CLOEXEC);
  }
  found_.clear();
}

}  // namespace lockstep
