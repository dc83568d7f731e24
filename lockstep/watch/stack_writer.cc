// SPDX-License-Identifier: Apache-2.0
// What the handler may do. It runs at any moment of the training thread, perhaps within malloc() or with a lock held.
// So it only walks the stack and stores numbers. The walk asks the dynamic loader for unwind tables. From glibc 2.35 on
// that takes no lock (_dl_find_object). In older versions it takes the loader's lock. The thread that holds this
// lock may take it again. But if another thread hangs within dlopen(), this thread waits for it. That does little harm,
// since a thread is only asked for its stack if it hangs already.
#include "lockstep/watch/stack_writer.h"

#include <unwind.h>

#include <cerrno>
#include <csignal>

namespace lockstep {
namespace {

constexpr int kFirstSignal = 9;  // Added to SIGRTMIN. Programs use lower signals more often.
constexpr int kTried = 8;

PageLayout* own_layout = nullptr;

struct Walk {
  PageLayout& layout;
  std::uint64_t count = 0;
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  int is_interrupted = 0;
  const auto address = static_cast<std::uint64_t>(_Unwind_GetIPInfo(context, &is_interrupted));
  if (address == 0) return _URC_END_OF_STACK;
  // The frames before the one that the signal interrupted are the handler's own.
  if (is_interrupted != 0) walk.count = 0;
  if (walk.count == PageLayout::kMostFrames) return _URC_END_OF_STACK;
  // A return address lies after its call, perhaps already in the next function.
  const auto in_call = is_interrupted != 0 ? address : address - 1;
  walk.layout.frames[walk.count++].store(in_call, std::memory_order_relaxed);
  return _URC_NO_REASON;
}

void write_stack(PageLayout& layout) {
  layout.stack_lock.fetch_add(1, std::memory_order_acquire);
  Walk walk{layout};
  _Unwind_Backtrace(take_frame, &walk);
  layout.frame_count.store(walk.count, std::memory_order_relaxed);
  layout.stack_lock.fetch_add(1, std::memory_order_release);
}

void answer_signal(int) {
  const int before = errno;
  write_stack(*own_layout);
  errno = before;
}

}  // namespace

void install_stack_writer(Page& page) {
  if (own_layout != nullptr) return;
  own_layout = &page.layout();
  write_stack(*own_layout);
  for (int signal = SIGRTMIN + kFirstSignal; signal < SIGRTMIN + kFirstSignal + kTried; ++signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = answer_signal;
    ours.sa_flags = SA_RESTART;
    ::sigfillset(&ours.sa_mask);
    if (::sigaction(signal, &ours, nullptr) != 0) continue;
    own_layout->stack_signal.store(signal, std::memory_order_release);
    return;
  }
}

}  // namespace lockstep
