// SPDX-License-Identifier: Apache-2.0
// How records survive a kill. The file has a header of one page and two slots of the same capacity. A slot's step
// number is written after its record, and erased before the next one. So a slot with a step number always has a
// complete record, whenever its writer is killed. Only the rank changes the file's size. The parent reads only the
// header.
#include "lockstep/watch/rank_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::size_t kHeaderBytes = 4096;
constexpr std::size_t kSlots = 2;
constexpr std::size_t kLeastCapacity = 4096;
constexpr std::int64_t kNoStep = -1;

struct Slot {
  std::atomic<std::int64_t> step;
  std::uint64_t bytes;
};

struct Header {
  static constexpr std::uint64_t kMagic = 0x00315952'4f4d454d;  // "MEMORY1" as bytes, and a zero.

  std::uint64_t magic;
  std::atomic<std::uint64_t> armed;
  std::uint64_t capacity;  // Of each slot.
  std::array<Slot, kSlots> slots;
};
static_assert(sizeof(Header) <= kHeaderBytes && std::atomic<std::int64_t>::is_always_lock_free);

Header& header_of(std::byte* memory) { return *std::launder(reinterpret_cast<Header*>(memory)); }

Slot& slot_for(std::byte* memory, std::int64_t step) {
  return header_of(memory).slots[static_cast<std::size_t>(step) % kSlots];
}

std::byte* data_for(std::byte* memory, std::int64_t step) {
  return memory + kHeaderBytes + (static_cast<std::size_t>(step) % kSlots) * header_of(memory).capacity;
}

[[noreturn]] void fail_memory(const std::string& what) {
  throw Error(ErrorKind::kEnvironment, "the memory that outlives a rank " + what + ": " + std::strerror(errno),
              "check the limits on memory (ulimit -v, /dev/shm), or set trainer.heal = \"off\"");
}

}  // namespace

SharedRankMemory::SharedRankMemory() : file_(::memfd_create("lockstep rank memory", MFD_CLOEXEC)) {
  if (!file_ || ::ftruncate(file_.get(), kHeaderBytes) != 0) fail_memory("cannot be made");
  void* const memory = ::mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) fail_memory("cannot be mapped");
  auto* header = new (memory) Header{};
  header->magic = Header::kMagic;
  for (auto& slot : header->slots) slot.step = kNoStep;
  ::munmap(memory, kHeaderBytes);
}

std::string SharedRankMemory::give() const {
  ::fcntl(file_.get(), F_SETFD, 0);
  return "/proc/self/fd/" + std::to_string(file_.get());
}

bool SharedRankMemory::is_armed() const {
  void* const memory = ::mmap(nullptr, kHeaderBytes, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) return false;
  const bool is_armed = header_of(static_cast<std::byte*>(memory)).armed.load(std::memory_order_acquire) != 0;
  ::munmap(memory, kHeaderBytes);
  return is_armed;
}

std::unique_ptr<RankMemory> RankMemory::of_process(const Environment& env) {
  const auto name = env.get(kRankMemoryVariable);
  if (!name) return nullptr;
  FileDescriptor file(::open(name->c_str(), O_RDWR | O_CLOEXEC));
  if (!file) fail_memory("cannot be opened");
  return std::make_unique<RankMemory>(std::move(file));
}

RankMemory::RankMemory(FileDescriptor file) : file_(std::move(file)) {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail_memory("cannot be read");
  errno = EINVAL;
  if (static_cast<std::size_t>(status.st_size) < kHeaderBytes) fail_memory("is too small");
  map(static_cast<std::size_t>(status.st_size));
  errno = EINVAL;
  if (header_of(memory_).magic != Header::kMagic) fail_memory("is of another kind");
}

RankMemory::~RankMemory() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

void RankMemory::map(std::size_t bytes) {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  memory_ = memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  bytes_ = memory_ == nullptr ? 0 : bytes;
  if (memory_ == nullptr) fail_memory("cannot be mapped");
}

void RankMemory::arm() { header_of(memory_).armed.store(1, std::memory_order_release); }

void RankMemory::disarm() { header_of(memory_).armed.store(0, std::memory_order_release); }

// A complete record is moved to its new place. A kill in between loses it, but only a training's first steps grow the
// file.
void RankMemory::grow(std::size_t capacity) {
  struct Record {
    std::int64_t step;
    std::vector<std::byte> bytes;
  };
  std::vector<Record> records;
  for (auto& slot : header_of(memory_).slots) {
    const auto step = slot.step.exchange(kNoStep);
    if (step == kNoStep) continue;
    const auto* data = data_for(memory_, step);
    records.push_back({step, {data, data + slot.bytes}});
  }
  const auto bytes = kHeaderBytes + kSlots * capacity;
  // If the system had no memory for these pages, the first write to them would kill this process.
  if (const int error = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    errno = error;
    fail_memory("cannot grow to " + std::to_string(bytes) + " bytes");
  }
  map(bytes);
  header_of(memory_).capacity = capacity;
  for (const auto& each : records) {
    std::copy(each.bytes.begin(), each.bytes.end(), begin(each.step, each.bytes.size()).begin());
    commit(each.step);
  }
}

std::span<std::byte> RankMemory::begin(std::int64_t step, std::size_t bytes) {
  LOCKSTEP_ASSERT(step >= 0);
  slot_for(memory_, step).step.store(kNoStep, std::memory_order_release);
  // The room for a few more metrics lets the file grow only once.
  if (bytes > header_of(memory_).capacity)
    grow((bytes + bytes / 4 + 2 * kLeastCapacity) / kLeastCapacity * kLeastCapacity);
  slot_for(memory_, step).bytes = bytes;
  return {data_for(memory_, step), bytes};
}

void RankMemory::commit(std::int64_t step) { slot_for(memory_, step).step.store(step, std::memory_order_release); }

std::optional<std::span<const std::byte>> RankMemory::find(std::int64_t step) const {
  if (step < 0) return std::nullopt;
  const auto& slot = slot_for(memory_, step);
  const auto capacity = header_of(memory_).capacity;
  const bool fits = slot.bytes <= capacity && kHeaderBytes + kSlots * capacity <= bytes_;
  if (slot.step.load(std::memory_order_acquire) != step || !fits) return std::nullopt;
  return std::span<const std::byte>{data_for(memory_, step), slot.bytes};
}

}  // namespace lockstep
