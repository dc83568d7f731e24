// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"
#include "lockstep/watch/stack_writer.h"

namespace lockstep {
namespace {

/// Returns memory that is never freed, since notes may be written until the process ends.
void* private_memory() {
  alignas(PageLayout) static std::array<std::byte, kPageBytes> memory{};
  return memory.data();
}

/// The parent made the file. A file of another size is not a page, and a write beyond its end would kill this process.
void* shared_memory() {
  const auto name = Environment::of_process().get(kPageVariable);
  if (!name) return nullptr;
  const FileDescriptor file(::open(name->c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size != kPageBytes) return nullptr;
  void* const memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

std::int32_t this_thread_id() {
  static thread_local const auto id = static_cast<std::int32_t>(::gettid());
  return id;
}

template <std::size_t N>
void copy_text(std::array<std::atomic<char>, N>& to, std::initializer_list<std::string_view> parts) {
  std::size_t end = 0;
  for (const auto& part : parts) {
    for (const char each : part) {
      if (end + 1 < N) to[end++].store(each, std::memory_order_relaxed);
    }
  }
  to[end].store('\0', std::memory_order_relaxed);
}

}  // namespace

std::uint64_t coarse_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, kPhases> kNames = {"starting", "loading",    "forward", "backward",
                                                                   "update",   "validation", "saving",  "ending"};
  const auto index = static_cast<std::size_t>(phase);
  return index < kNames.size() ? kNames.at(index) : "an unknown phase";
}

Page& Page::own() {
  static Page& page = []() -> Page& {
    void* const shared = shared_memory();
    static Page own(shared != nullptr ? shared : private_memory());
    install_stack_writer(own);
    return own;
  }();
  return page;
}

Page::Page(void* memory) : layout_(*new (memory) PageLayout{}) {
  layout_.pid = ::getpid();
  layout_.rank = -1;
  layout_.first_sample = -1;
  layout_.loading_sample = -1;
  layout_.thread = this_thread_id();
  layout_.noted_ns = layout_.entered_ns = coarse_ns();
  layout_.magic.store(PageLayout::kMagic, std::memory_order_release);
}

void Page::note_change() {
  layout_.noted_ns.store(coarse_ns(), std::memory_order_relaxed);
  layout_.changes.fetch_add(1, std::memory_order_release);
}

void Page::set_rank(int rank) {
  layout_.rank.store(rank, std::memory_order_relaxed);
  note_change();
}

void Page::set_run_dir(std::string_view folder) {
  auto& to = layout_.run_dir;
  if (folder.empty() || folder.size() >= to.size() || to[0].load(std::memory_order_relaxed) != '\0') return;
  for (std::size_t i = folder.size(); i > 0; --i) to[i - 1].store(folder[i - 1], std::memory_order_release);
  note_change();
}

void Page::enter(Phase phase, std::int64_t step) {
  if (!is_on_.load(std::memory_order_relaxed)) return;
  layout_.step.store(step, std::memory_order_relaxed);
  enter(phase);
}

void Page::enter(Phase phase) {
  if (!is_on_.load(std::memory_order_relaxed)) return;
  const auto now = coarse_ns();
  // One thread enters phases, so these need no atomic addition.
  auto& spent = layout_.spent_ns[layout_.phase.load(std::memory_order_relaxed) % kPhases];
  const auto since = layout_.entered_ns.load(std::memory_order_relaxed);
  spent.store(spent.load(std::memory_order_relaxed) + now - since, std::memory_order_relaxed);
  layout_.entered_ns.store(now, std::memory_order_relaxed);
  auto& entered = layout_.entered[static_cast<std::size_t>(phase)];
  entered.store(entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  layout_.phase.store(static_cast<std::uint32_t>(phase), std::memory_order_relaxed);
  layout_.thread.store(this_thread_id(), std::memory_order_relaxed);
  layout_.loading_sample.store(-1, std::memory_order_relaxed);
  layout_.noted_ns.store(now, std::memory_order_relaxed);
  layout_.changes.fetch_add(1, std::memory_order_release);
}

void Page::begin_batch(std::int64_t step, std::span<const std::int64_t> samples) {
  if (!is_on_.load(std::memory_order_relaxed)) return;
  layout_.first_sample.store(samples.empty() ? -1 : samples.front(), std::memory_order_relaxed);
  layout_.samples.store(static_cast<std::int64_t>(samples.size()), std::memory_order_relaxed);
  layout_.told_by.store(0, std::memory_order_relaxed);
  enter(Phase::kForward, step);
}

void Page::note_error_of(int rank) {
  layout_.told_by.store(static_cast<std::uint32_t>(rank) + 1, std::memory_order_relaxed);
  note_change();
}

// This note is not counted as a change of the page, since the rank has not gone on.
void Page::wait_for_sample(std::int64_t id) { layout_.loading_sample.store(id, std::memory_order_relaxed); }

void Page::begin_collective(std::string_view operation, std::string_view type, std::int64_t elements,
                            std::string_view detail) {
  if (!is_on_.load(std::memory_order_relaxed)) return;
  layout_.collective_lock.fetch_add(1, std::memory_order_acquire);
  copy_text(layout_.collective, {operation, type.empty() ? "" : " ", type});
  copy_text(layout_.detail, {detail});
  layout_.elements.store(elements, std::memory_order_relaxed);
  layout_.begun.fetch_add(1, std::memory_order_relaxed);
  layout_.collective_lock.fetch_add(1, std::memory_order_release);
  note_change();
}

void Page::restart_collectives() {
  layout_.collective_lock.fetch_add(1, std::memory_order_acquire);
  layout_.begun.store(0, std::memory_order_relaxed);
  layout_.collective[0].store('\0', std::memory_order_relaxed);
  layout_.detail[0].store('\0', std::memory_order_relaxed);
  layout_.elements.store(0, std::memory_order_relaxed);
  layout_.collective_lock.fetch_add(1, std::memory_order_release);
  note_change();
}

}  // namespace lockstep
