// SPDX-License-Identifier: Apache-2.0
// Tests writers that are killed at random moments, and snapshots that are damaged at random places. The seeds come from
// LOCKSTEP_DAMAGE_SEEDS, as first:count. tools/soak uses new seeds each time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_names.h"
#include "lockstep/format/snapshot/snapshot_writer.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct Seeds {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

Seeds seeds(std::uint64_t usual) {
  const char* text = std::getenv("LOCKSTEP_DAMAGE_SEEDS");
  if (text == nullptr) return {.first = 0, .count = usual};
  char* colon = nullptr;
  const auto first = std::strtoull(text, &colon, 10);
  return {.first = first, .count = std::strtoull(colon + 1, nullptr, 10)};
}

std::string numbers(std::int64_t step, std::size_t size) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step));
  std::string out(size, '\0');
  for (auto& each : out) each = static_cast<char>(random());
  return out;
}

fs::path write_snapshot(const fs::path& snapshots, std::int64_t step, std::size_t size) {
  const auto model = numbers(step, size);
  const auto optimizer = numbers(-step, size);
  const auto tensor = [](const std::string& bytes) {
    return TensorEntry{"weight", "U8", {static_cast<std::int64_t>(bytes.size())}, std::as_bytes(std::span(bytes))};
  };
  SnapshotWriter writer(snapshots, step);
  const auto entries = {tensor(model), tensor(optimizer)};
  writer.add_tensors("model.safetensors", std::span(entries.begin(), 1));
  writer.add_tensors("optimizer.safetensors", std::span(entries.begin() + 1, 1));
  writer.add_text("state.json", "{\"step\": " + std::to_string(step) + "}\n");
  const auto made = writer.commit();
  mark_best(made);
  prune_snapshots(snapshots, {.newest = 2}, made);
  return made;
}

class Damage : public ::testing::Test {
 protected:
  fs::path snapshots() const { return folder_.path() / "snapshots"; }

  testing::TemporaryFolder folder_{::access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()};
};

// The writer saves snapshots of a megabyte, one after the other, until it is killed.
TEST_F(Damage, AWriterThatIsKilledAtAnyMomentLeavesAWholeSnapshotAndNothingElse) {
  constexpr std::size_t kSize = 500'000;
  const auto drawn = seeds(40);
  std::int64_t step = 1;
  write_snapshot(snapshots(), step, kSize);
  for (auto seed = drawn.first; seed < drawn.first + drawn.count; ++seed) {
    std::array<int, 2> begun{};
    ASSERT_EQ(::pipe(begun.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      [[maybe_unused]] const auto told = ::write(begun[1], "", 1);
      for (auto next = step + 1;; ++next) write_snapshot(snapshots(), next, kSize);
    }
    char byte = 0;
    ASSERT_EQ(::read(begun[0], &byte, 1), 1);
    std::mt19937_64 random(seed);
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(random() % 6'000'000)};
    ::nanosleep(&pause, nullptr);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (const int fd : begun) ::close(fd);

    const auto newest = newest_whole_snapshot(snapshots(), [&](const auto& entry, const auto& why) {
      ADD_FAILURE() << "seed " << seed << ": " << entry.path << ": " << why;
    });
    ASSERT_TRUE(newest && newest->step >= step) << "seed " << seed;
    ASSERT_NO_THROW(verify_snapshot(fs::canonical(snapshots() / "latest"))) << "seed " << seed;
    step = newest->step;
    remove_all_temporaries(snapshots());
    for (const auto& entry : fs::directory_iterator(snapshots())) {
      ASSERT_FALSE(entry.path().filename().string().starts_with(".")) << "seed " << seed << ": " << entry.path();
    }
  }
}

enum class Kind { kBit, kZeros, kSwap, kCut, kGrow, kOtherStep, kMoved, kOtherRun, kMissing, kCount };

class Corrupter {
 public:
  Corrupter(fs::path snapshot, fs::path earlier, fs::path of_other_run, std::uint64_t seed)
      : snapshot_(std::move(snapshot)),
        earlier_(std::move(earlier)),
        other_run_(std::move(of_other_run)),
        random_(seed) {}

  // Damages the snapshot, and returns a description of the damage. Empty if the damage changed no byte.
  std::string damage() {
    const auto kind = static_cast<Kind>(random_() % static_cast<std::uint64_t>(Kind::kCount));
    static constexpr std::array kFiles = {"model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"};
    const auto file = snapshot_ / kFiles[random_() % kFiles.size()];
    auto bytes = text_of_file(file);
    const auto before = bytes;
    switch (kind) {
      case Kind::kBit:
        bytes[random_() % bytes.size()] ^= static_cast<char>(1U << (random_() % 8));
        break;
      case Kind::kZeros:
        zero(bytes);
        break;
      case Kind::kSwap:
        swap_blocks(bytes);
        break;
      case Kind::kCut:
        bytes.resize(random_() % bytes.size());
        break;
      case Kind::kGrow:
        bytes += std::string(1 + random_() % 600, static_cast<char>(random_()));
        break;
      case Kind::kOtherStep:
        bytes = text_of_file(earlier_ / file.filename());
        break;
      case Kind::kMoved:
      case Kind::kOtherRun:
        return replace(kind == Kind::kMoved ? earlier_ : other_run_);
      case Kind::kMissing:
        fs::remove(file);
        return "without " + file.filename().string();
      case Kind::kCount:
        break;
    }
    if (bytes == before) return {};
    write_whole(file, bytes, /*durable=*/false);
    return "kind " + std::to_string(static_cast<int>(kind)) + " in " + file.filename().string();
  }

 private:
  std::pair<std::size_t, std::size_t> block(const std::string& bytes) {
    const auto begin = random_() % bytes.size();
    return {begin, 1 + random_() % (bytes.size() - begin)};
  }
  void zero(std::string& bytes) {
    const auto [begin, size] = block(bytes);
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), size, '\0');
  }
  void swap_blocks(std::string& bytes) {
    const auto half = bytes.size() / 2;
    const auto size = 1 + random_() % half;
    std::swap_ranges(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size),
                     bytes.begin() + static_cast<std::ptrdiff_t>(half));
  }
  std::string replace(const fs::path& by) {
    fs::remove_all(snapshot_);
    fs::copy(by, snapshot_);
    return "a copy of " + by.string();
  }

  fs::path snapshot_;
  fs::path earlier_;
  fs::path other_run_;
  std::mt19937_64 random_;
};

TEST_F(Damage, OfAnyKindIsFound) {
  const auto drawn = seeds(2000);
  const auto earlier = write_snapshot(snapshots(), 7, 900);
  const auto snapshot = write_snapshot(snapshots(), 8, 900);
  const auto other_run = write_snapshot(folder_.path() / "other/snapshots", 8, 900);
  const auto sound = folder_.path() / "sound";
  fs::copy(snapshot, sound);
  std::uint64_t tried = 0;
  for (auto seed = drawn.first; seed < drawn.first + drawn.count; ++seed) {
    fs::remove_all(snapshot);
    fs::copy(sound, snapshot);
    const auto what = Corrupter(snapshot, earlier, other_run, seed).damage();
    if (what.empty()) continue;
    ++tried;
    ASSERT_FALSE(checked_snapshot(snapshot).faults.empty()) << "seed " << seed << ": " << what;
    const auto newest = newest_whole_snapshot(snapshots(), [](const auto&, const auto&) {});
    ASSERT_TRUE(newest) << "seed " << seed;
    ASSERT_EQ(newest->step, 7) << "seed " << seed << ": " << what;
  }
  EXPECT_GT(tried, drawn.count * 9 / 10);
}

}  // namespace
}  // namespace lockstep
