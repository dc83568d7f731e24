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

template <std::size_t N>
std::string text_of(const std::array<std::atomic<char>, N>& letters) {
  std::string text;
  for (const auto& letter : letters) {
    const char each = letter.load(std::memory_order_relaxed);
    if (each == '\0') break;
    text += each;
  }
  return text;
}

/// Returns nothing if the rank was writing it all the time.
std::optional<Collective> collective_of(const PageLayout& page) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const auto before = page.collective_lock.load(std::memory_order_acquire);
    Collective collective{.number = page.begun.load(std::memory_order_relaxed),
                          .what = text_of(page.collective),
                          .elements = page.elements.load(std::memory_order_relaxed),
                          .detail = text_of(page.detail)};
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool is_whole = before % 2 == 0 && page.collective_lock.load(std::memory_order_relaxed) == before;
    if (is_whole) return collective;
  }
  return std::nullopt;
}

/// Returns the seconds since a time that the rank noted. Returns nothing if its clock is another than this process's,
/// as in a time namespace of its own.
std::optional<double> seconds_since(const std::atomic<std::uint64_t>& noted, std::uint64_t now) {
  constexpr std::uint64_t kTick = 20'000'000;
  const auto then = noted.load(std::memory_order_relaxed);
  if (then > now + kTick) return std::nullopt;
  return now > then ? 1e-9 * static_cast<double>(now - then) : 0;
}

void add_second_version(const PageLayout& page, PageSight& sight) {
  const auto now = coarse_ns();
  auto& spent = sight.spent_s.emplace();
  for (std::size_t i = 0; i < kPhases; ++i) {
    spent.at(i) = 1e-9 * static_cast<double>(page.spent_ns.at(i).load(std::memory_order_relaxed));
  }
  const auto in_phase = seconds_since(page.entered_ns, now);
  const auto phase = static_cast<std::size_t>(sight.phase);
  if (in_phase && phase < kPhases) spent.at(phase) += *in_phase;
  sight.noted_s_ago = seconds_since(page.noted_ns, now).value_or(-1);
  sight.loading_sample = page.loading_sample.load(std::memory_order_relaxed);
  sight.thread = page.thread.load(std::memory_order_relaxed);
  const auto told_by = page.told_by.load(std::memory_order_relaxed);
  if (told_by > 0 && std::in_range<int>(told_by)) sight.told_by = static_cast<int>(told_by) - 1;
  if (page.run_dir.front().load(std::memory_order_acquire) != '\0') sight.run_dir = text_of(page.run_dir);
}

}  // namespace

std::optional<PageSight> sight_of(const PageLayout& page) {
  const auto magic = page.magic.load(std::memory_order_acquire);
  if (magic != PageLayout::kMagic && magic != PageLayout::kFirstMagic) return std::nullopt;
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
  if (magic == PageLayout::kMagic) add_second_version(page, sight);
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
