// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"

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

}  // namespace

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, kPhases> kNames = {"starting", "loading",    "forward", "backward",
                                                                   "update",   "validation", "saving",  "ending"};
  const auto index = static_cast<std::size_t>(phase);
  return index < kNames.size() ? kNames.at(index) : "an unknown phase";
}

Page& Page::own() {
  static Page page([] {
    void* const shared = shared_memory();
    return shared != nullptr ? shared : private_memory();
  }());
  return page;
}

Page::Page(void* memory) : layout_(*new (memory) PageLayout{}) {
  layout_.pid = ::getpid();
  layout_.rank = -1;
  layout_.first_sample = -1;
  layout_.magic.store(PageLayout::kMagic, std::memory_order_release);
}

void Page::set_rank(int rank) {
  layout_.rank.store(rank, std::memory_order_relaxed);
  note_change();
}

void Page::enter(Phase phase, std::int64_t step) {
  layout_.step.store(step, std::memory_order_relaxed);
  enter(phase);
}

void Page::enter(Phase phase) {
  layout_.phase.store(static_cast<std::uint32_t>(phase), std::memory_order_relaxed);
  layout_.entered[static_cast<std::size_t>(phase)].fetch_add(1, std::memory_order_relaxed);
  note_change();
}

void Page::begin_batch(std::int64_t step, std::span<const std::int64_t> samples) {
  layout_.first_sample.store(samples.empty() ? -1 : samples.front(), std::memory_order_relaxed);
  layout_.samples.store(static_cast<std::int64_t>(samples.size()), std::memory_order_relaxed);
  enter(Phase::kForward, step);
}

void Page::begin_collective(std::string_view operation, std::string_view type, std::int64_t elements) {
  layout_.collective_lock.fetch_add(1, std::memory_order_acquire);
  std::size_t end = 0;
  const auto add = [&](std::string_view text) {
    for (const char each : text) {
      if (end + 1 < layout_.collective.size()) layout_.collective[end++].store(each, std::memory_order_relaxed);
    }
  };
  add(operation);
  if (!type.empty()) add(" ");
  add(type);
  layout_.collective[end].store('\0', std::memory_order_relaxed);
  layout_.elements.store(elements, std::memory_order_relaxed);
  layout_.begun.fetch_add(1, std::memory_order_relaxed);
  layout_.collective_lock.fetch_add(1, std::memory_order_release);
  note_change();
}

}  // namespace lockstep
