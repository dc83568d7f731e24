// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/page_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Returns nothing if the rank was writing the collective's note at every attempt.
std::optional<Collective> collective_of(const PageLayout& page) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const auto before = page.collective_lock.load(std::memory_order_acquire);
    Collective collective{.number = page.begun.load(std::memory_order_relaxed),
                          .what = {},
                          .elements = page.elements.load(std::memory_order_relaxed)};
    for (const auto& letter : page.collective) {
      const char each = letter.load(std::memory_order_relaxed);
      if (each == '\0') break;
      collective.what += each;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool is_whole = before % 2 == 0 && page.collective_lock.load(std::memory_order_relaxed) == before;
    if (is_whole) return collective;
  }
  return std::nullopt;
}

}  // namespace

std::optional<PageSight> sight_of(const PageLayout& page) {
  if (page.magic.load(std::memory_order_acquire) != PageLayout::kMagic) return std::nullopt;
  auto collective = collective_of(page);
  if (!collective) return std::nullopt;
  PageSight sight{.pid = page.pid.load(std::memory_order_relaxed),
                  .changes = page.changes.load(std::memory_order_acquire),
                  .phase = static_cast<Phase>(page.phase.load(std::memory_order_relaxed)),
                  .step = page.step.load(std::memory_order_relaxed),
                  .first_sample = page.first_sample.load(std::memory_order_relaxed),
                  .samples = page.samples.load(std::memory_order_relaxed),
                  .entered = {},
                  .collective = *std::move(collective)};
  for (std::size_t i = 0; i < kPhases; ++i) sight.entered.at(i) = page.entered.at(i).load(std::memory_order_relaxed);
  return sight;
}

SharedPage::SharedPage() : file_(::memfd_create("lockstep page", MFD_CLOEXEC)) {
  void* memory = MAP_FAILED;
  if (file_ && ::ftruncate(file_.get(), kPageBytes) == 0) {
    memory = ::mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, file_.get(), 0);
  }
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::kEnvironment, std::string("a rank's page cannot be made: ") + std::strerror(errno),
                "check the limits on memory and open files (ulimit -v, ulimit -n)");
  }
  page_ = static_cast<const PageLayout*>(memory);
}

SharedPage::SharedPage(SharedPage&& other) noexcept
    : file_(std::move(other.file_)), page_(std::exchange(other.page_, nullptr)) {}

SharedPage::~SharedPage() {
  if (page_ != nullptr) ::munmap(const_cast<PageLayout*>(page_), kPageBytes);
}

std::string SharedPage::give() const {
  ::fcntl(file_.get(), F_SETFD, 0);
  return "/proc/self/fd/" + std::to_string(file_.get());
}

}  // namespace lockstep
