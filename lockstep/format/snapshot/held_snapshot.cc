// SPDX-License-Identifier: Apache-2.0
// How a state survives the process that writes it. The memory is a memfd, mapped by the training and by its parent. It
// holds a header and two places. The training writes into the older place and never touches the newer one.
//
// A place's `number` says whether it counts. hold() first sets it to 0, then copies the state, and last stores a number
// above the other place's. The stores have release order, so a reader that sees the number also sees the state. If the
// training dies in between, the place has number 0, and the parent takes the other one.
//
// Only the training writes. The parent reads, and only after the training has ended, so there is no lock. The parent
// trusts nothing in the memory, since a dying process may have written anywhere. It checks every offset and the index's
// form, and falls back to the other place.
#include "lockstep/format/snapshot/held_snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_writer.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMagic = 0x31444c45484b434c;  // "LCKHELD1"
constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kSlack = 1 << 20;  // The numbers in a state's text grow with its step.

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kEnvironment, what + ": " + std::strerror(errno),
              "without snapshot.in_memory a training needs no such memory");
}

}  // namespace

/// One of the two places for a state. `number` is 0 while the place is written. The place with the higher number is
/// newer.
struct HeldSnapshot::Place {
  std::uint64_t at = 0;
  std::uint64_t capacity = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t number = 0;
};

struct HeldSnapshot::Header {
  std::uint64_t magic = 0;
  std::array<Place, 2> places;
};

/// The layout of one place, in offsets from its beginning.
struct HeldSnapshot::Plan {
  std::string index;
  std::vector<std::pair<std::uint64_t, std::span<const std::byte>>> copies;
  std::uint64_t bytes = 0;

  Plan(const SnapshotParts& parts, const std::filesystem::path& snapshots) {
    // The data follow the index, and the index holds their offsets. Offsets are counted from the index's end, so they
    // do not depend on the index's length.
    Json tensors = Json::array();
    for (const auto& [file, entries] : parts.tensors) {
      Json listed = Json::array();
      for (const auto& each : entries)
        listed.push_back({each.name, each.dtype, each.shape, add(each.bytes), each.bytes.size()});
      tensors.push_back({file, std::move(listed)});
    }
    Json texts = Json::array();
    for (const auto& [file, text] : parts.texts) {
      texts.push_back({file, add(std::as_bytes(std::span(text))), text.size()});
    }
    const auto& folder = snapshots.native();
    index = Json{{"step", parts.step},
                 {"snapshots", std::vector<int>(folder.begin(), folder.end())},  // A path need not be UTF-8.
                 {"tensors", std::move(tensors)},
                 {"texts", std::move(texts)}}
                .dump();
    bytes += rounded_up(index.size(), kAlignment);
  }

 private:
  std::uint64_t add(std::span<const std::byte> data) {
    const auto at = bytes;
    copies.emplace_back(at, data);
    bytes += rounded_up(data.size(), kAlignment);
    return at;
  }
};

FileDescriptor HeldSnapshot::make_memory() {
  FileDescriptor memory(::memfd_create("lockstep-held-state", MFD_CLOEXEC));
  if (!memory || ::ftruncate(memory.get(), kPage) != 0) fail("no memory can be made for the newest state");
  return memory;
}

HeldSnapshot::HeldSnapshot(FileDescriptor memory) : memory_(std::move(memory)) { map(); }

HeldSnapshot::~HeldSnapshot() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

void HeldSnapshot::map() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
  struct stat about {};
  if (::fstat(memory_.get(), &about) != 0) fail("the memory of the newest state is not there");
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size < sizeof(Header)) {
    errno = EINVAL;
    fail("the memory of the newest state has " + std::to_string(size) + " bytes, want a page");
  }
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (address == MAP_FAILED) fail("the memory of the newest state cannot be mapped");
  bytes_ = {static_cast<std::byte*>(address), size};
}

HeldSnapshot::Header& HeldSnapshot::header() const { return *reinterpret_cast<Header*>(bytes_.data()); }

void HeldSnapshot::make_room(Place& place, std::uint64_t bytes) {
  if (place.capacity >= bytes) return;
  const auto which = &place - header().places.data();
  const auto wanted = rounded_up(bytes + kSlack, kPage);
  const auto end = rounded_up(bytes_.size(), kPage);
  // ftruncate() would not reserve memory. If there is too little, the first write would then kill the process.
  if (::fallocate(memory_.get(), 0, static_cast<off_t>(end), static_cast<off_t>(wanted)) != 0) {
    fail("no memory for " + std::to_string(wanted) + " bytes of the newest state");
  }
  if (place.capacity > 0) {
    ::fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(place.at),
                static_cast<off_t>(place.capacity));
  }
  map();
  header().places.at(static_cast<std::size_t>(which)) = {.at = end, .capacity = wanted};
}

void HeldSnapshot::reserve(const SnapshotParts& parts, const std::filesystem::path& snapshots) {
  const Plan plan(parts, snapshots);
  for (std::size_t i = 0; i < 2; ++i) make_room(header().places.at(i), plan.bytes);
}

void HeldSnapshot::hold(const SnapshotParts& parts, const std::filesystem::path& snapshots) {
  const Plan plan(parts, snapshots);
  header().magic = kMagic;
  const auto which = header().places[0].number <= header().places[1].number ? 0U : 1U;
  const auto next = header().places.at(1 - which).number + 1;
  std::atomic_ref(header().places.at(which).number).store(0, std::memory_order_release);
  make_room(header().places.at(which), plan.bytes);
  auto& place = header().places.at(which);
  auto* to = bytes_.data() + place.at;
  std::memcpy(to, plan.index.data(), plan.index.size());
  place.index_bytes = plan.index.size();
  to += rounded_up(plan.index.size(), kAlignment);
  for (const auto& [at, data] : plan.copies) {
    if (!data.empty()) std::memcpy(to + at, data.data(), data.size());
  }
  std::atomic_ref(place.number).store(next, std::memory_order_release);
}

std::optional<HeldSnapshot::Held> HeldSnapshot::read(const Place& place) const {
  if (place.at > bytes_.size() || place.capacity > bytes_.size() - place.at || place.index_bytes > place.capacity) {
    return std::nullopt;
  }
  const auto room = bytes_.subspan(place.at, place.capacity);
  const auto* text = reinterpret_cast<const char*>(room.data());
  const auto index = Json::parse(text, text + place.index_bytes, nullptr, /*allow_exceptions=*/false);
  const auto data = room.subspan(std::min<std::size_t>(rounded_up(place.index_bytes, kAlignment), room.size()));
  const auto bytes_at = [&](const Json& at, const Json& count) {
    const auto begin = at.get<std::size_t>();
    const auto size = count.get<std::size_t>();
    if (begin > data.size() || size > data.size() - begin) throw Error(ErrorKind::kData, "outside of the place");
    return std::span<const std::byte>(data.subspan(begin, size));
  };
  try {
    Held held;
    held.parts.step = index.at("step").get<std::int64_t>();
    const auto folder = index.at("snapshots").get<std::vector<int>>();
    held.snapshots = std::string(folder.begin(), folder.end());
    for (const auto& file : index.at("tensors")) {
      auto& [name, entries] =
          held.parts.tensors.emplace_back(file.at(0).get<std::string>(), std::vector<TensorEntry>());
      for (const auto& each : file.at(1)) {
        entries.push_back({each.at(0).get<std::string>(), each.at(1).get<std::string>(),
                           each.at(2).get<std::vector<std::int64_t>>(), bytes_at(each.at(3), each.at(4))});
      }
    }
    for (const auto& each : index.at("texts")) {
      const auto bytes = bytes_at(each.at(1), each.at(2));
      held.parts.texts.emplace_back(each.at(0).get<std::string>(),
                                    std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    return held;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<HeldSnapshot::Held> HeldSnapshot::newest() const {
  if (header().magic != kMagic) return std::nullopt;
  auto places = header().places;
  std::ranges::sort(places, [](const Place& a, const Place& b) { return a.number > b.number; });
  for (const auto& place : places) {
    if (place.number == 0) continue;
    if (auto held = read(place)) return held;
  }
  return std::nullopt;
}

std::pair<std::filesystem::path, std::uint64_t> write_parts(const std::filesystem::path& snapshots,
                                                            const SnapshotParts& parts) {
  SnapshotWriter writer(snapshots, parts.step);
  for (const auto& [file, entries] : parts.tensors) writer.add_tensors(file, entries);
  for (const auto& [file, text] : parts.texts) writer.add_text(file, text);
  auto path = writer.commit();
  return {std::move(path), writer.bytes()};
}

std::optional<std::filesystem::path> write_to_disk(const HeldSnapshot::Held& held) {
  const auto newest = newest_whole_snapshot(held.snapshots, [](const auto&, const auto&) {});
  if (newest && newest->step >= held.parts.step) return std::nullopt;
  return write_parts(held.snapshots, held.parts).first;
}

}  // namespace lockstep
