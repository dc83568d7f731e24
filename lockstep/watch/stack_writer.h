// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/watch/page.h"

namespace lockstep {

/// Makes this process answer a real-time signal with the stack of the thread that gets it. The handler writes the
/// frames' addresses to `page`, and changes nothing else. The page names the signal, which is the first from
/// SIGRTMIN + 9 on that the program does not use itself. If it uses all of them, the page names none.
///
/// The handler walks the stack with _Unwind_Backtrace, which reads the unwind tables. LibTorch is built without frame
/// pointers, so no other way works. The first walk is made in this function, since it may allocate memory. Later walks
/// allocate nothing. SA_RESTART is set, so an interrupted read goes on. A sleep may end early.
///
/// `page` must outlive the process. A second call does nothing.
void install_stack_writer(Page& page);

}  // namespace lockstep
