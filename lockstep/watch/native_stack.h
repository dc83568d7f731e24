// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/watch/page.h"

namespace lockstep {

/// The stack of a thread. Either there are frames, or a note says why not.
struct ThreadStack {
  std::vector<std::string> frames{};  ///< "lockstep::BatchReader::next" or "libc.so.6+0x9c5b", innermost first.
  std::string note{};
};

/// Asks the training thread of process `pid` for its native stack, by the signal that its page names, and finds the
/// functions' names. The signal is sent only if the process handles it. A stopped process cannot answer.
///
/// Blocks: until the process has answered, for at most `patience`.
ThreadStack read_native_stack(const PageLayout& page, pid_t pid,
                              std::chrono::milliseconds patience = std::chrono::milliseconds(1000));

/// Asks a Python process for its Python stack. The process writes it as text, as faulthandler does, to the file that
/// its page names. A frame is such as "step (train.py:31)". There is neither a frame nor a note if the page names no
/// file. Blocks: as read_native_stack().
ThreadStack read_text_stack(const PageLayout& page, pid_t pid,
                            std::chrono::milliseconds patience = std::chrono::milliseconds(1000));

/// Returns the frames of the first thread in a text that faulthandler wrote.
std::vector<std::string> faulthandler_frames(std::string_view text);

/// Returns the name of the function at each address of process `pid`, or its module and offset.
std::vector<std::string> name_addresses(pid_t pid, const std::vector<std::uint64_t>& addresses);

}  // namespace lockstep
