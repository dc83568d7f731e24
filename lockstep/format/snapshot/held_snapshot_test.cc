// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/held_snapshot.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

FileDescriptor same(const FileDescriptor& memory) { return FileDescriptor(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0)); }

/// Returns a state whose every byte is the number of its step.
class State {
 public:
  State(std::int64_t step, std::size_t bytes) : bytes_(bytes, static_cast<std::byte>(step)) {
    parts_.step = step;
    parts_.tensors = {
        {"model.safetensors",
         {{"weight", "U8", {static_cast<std::int64_t>(bytes_.size())}, bytes_}, {"none", "F32", {0}, {}}}}};
    parts_.texts = {{"state.json", R"({"step":)" + std::to_string(step) + "}\n"}};
  }
  const SnapshotParts& parts() const { return parts_; }

 private:
  std::vector<std::byte> bytes_;
  SnapshotParts parts_;
};

/// Returns the step of the newest state, after checking that every byte belongs to this step. -1 if nothing is held.
std::int64_t whole_step(const FileDescriptor& memory, std::size_t bytes) {
  const HeldSnapshot reader(same(memory));
  const auto held = reader.newest();
  if (!held) return -1;
  const auto& weight = held->parts.tensors.at(0).second.at(0);
  EXPECT_EQ(weight.bytes.size(), bytes);
  EXPECT_TRUE(std::ranges::all_of(weight.bytes,
                                  [&](std::byte each) { return each == static_cast<std::byte>(held->parts.step); }))
      << "step " << held->parts.step;
  EXPECT_EQ(held->parts.texts.at(0).second, R"({"step":)" + std::to_string(held->parts.step) + "}\n");
  return held->parts.step;
}

class HeldSnapshotTest : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  const fs::path snapshots_ = folder_.path() / "snapshots \xff";
  FileDescriptor memory_ = HeldSnapshot::make_memory();
};

TEST_F(HeldSnapshotTest, GivesTheNewestState) {
  HeldSnapshot writer(same(memory_));
  EXPECT_EQ(whole_step(memory_, 0), -1);
  for (std::int64_t step = 1; step < 6; ++step) {
    writer.hold(State(step, 10'000).parts(), snapshots_);
    EXPECT_EQ(whole_step(memory_, 10'000), step);
  }
}

TEST_F(HeldSnapshotTest, TakesAStateThatHasGrown) {
  HeldSnapshot writer(same(memory_));
  for (const std::size_t bytes : {1'000U, 5'000'000U, 9'000'000U, 3'000U}) {
    writer.hold(State(7, bytes).parts(), snapshots_);
    EXPECT_EQ(whole_step(memory_, bytes), 7);
  }
  struct stat about {};
  ::fstat(memory_.get(), &about);
  EXPECT_LT(about.st_blocks * 512, 9'000'000 + 5'000'000 + (4 << 20)) << "what was left is still held";
}

TEST_F(HeldSnapshotTest, TakesNoNewMemoryOnceItIsReserved) {
  HeldSnapshot writer(same(memory_));
  writer.reserve(State(1, 1'000'000).parts(), snapshots_);
  struct stat before {};
  ::fstat(memory_.get(), &before);
  for (std::int64_t step = 1; step < 5; ++step) writer.hold(State(step, 1'000'000).parts(), snapshots_);
  struct stat after {};
  ::fstat(memory_.get(), &after);
  EXPECT_EQ(after.st_blocks, before.st_blocks);
  EXPECT_GE(before.st_blocks * 512, 2'000'000);
}

TEST_F(HeldSnapshotTest, BecomesASnapshotOnDisk) {
  HeldSnapshot(same(memory_)).hold(State(12, 5'000).parts(), snapshots_);
  const HeldSnapshot reader(same(memory_));
  const auto path = write_to_disk(reader.newest().value());
  ASSERT_TRUE(path);
  EXPECT_EQ(*path, snapshots_ / "step-0000000012");
  verify_snapshot(*path);
  const auto file = SafetensorsFile::open(*path / "model.safetensors");
  EXPECT_EQ(file.find("weight")->bytes[4'999], std::byte{12});
  EXPECT_FALSE(write_to_disk(reader.newest().value())) << "it is there already";
}

TEST_F(HeldSnapshotTest, IsNotWrittenOverALaterOneButOverADamagedOne) {
  write_parts(snapshots_, State(20, 100).parts());
  HeldSnapshot(same(memory_)).hold(State(12, 100).parts(), snapshots_);
  const HeldSnapshot reader(same(memory_));
  EXPECT_FALSE(write_to_disk(reader.newest().value()));
  fs::resize_file(snapshots_ / "step-0000000020" / "model.safetensors", 10);
  EXPECT_TRUE(write_to_disk(reader.newest().value()));
}

TEST_F(HeldSnapshotTest, IsWholeWhereverItsWriterIsKilled) {
  constexpr std::size_t kBytes = 200'000;
  const char* soak = std::getenv("LOCKSTEP_SOAK");
  const int trials = soak != nullptr && std::string(soak) == "1" ? 2'000 : 100;
  std::mt19937 draw(std::random_device{}());
  for (int trial = 0; trial < trials; ++trial) {
    const auto memory = HeldSnapshot::make_memory();
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      HeldSnapshot writer(same(memory));
      for (std::int64_t step = 1;; ++step) {
        writer.hold(State(step, kBytes).parts(), "snapshots");
        [[maybe_unused]] const auto said = ::write(told[1], &step, sizeof step);
      }
    }
    ::close(told[1]);
    std::int64_t last = 0;
    for (auto left = 1 + draw() % 50; left > 0; --left) ASSERT_EQ(::read(told[0], &last, sizeof last), 8);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (std::int64_t more = 0; ::read(told[0], &more, sizeof more) == 8;) last = more;
    ::close(told[0]);
    const auto step = whole_step(memory, kBytes);
    EXPECT_TRUE(step == last || step == last + 1) << step << " after " << last;
  }
}

TEST_F(HeldSnapshotTest, FindsNothingInMemoryThatSomethingElseHasWritten) {
  HeldSnapshot(same(memory_)).hold(State(3, 1'000).parts(), snapshots_);
  struct stat about {};
  ::fstat(memory_.get(), &about);
  std::mt19937_64 draw(9);
  std::string whole(static_cast<std::size_t>(about.st_size), '\0');
  ASSERT_EQ(::pread(memory_.get(), whole.data(), whole.size(), 0), about.st_size);
  for (int trial = 0; trial < 2'000; ++trial) {
    auto damaged = whole;
    // Returns the bytes of the header and of the index behind it.
    for (int i = 0; i < 3; ++i) damaged[draw() % (trial % 2 == 0 ? 80 : 4096 + 400)] = static_cast<char>(draw());
    ASSERT_EQ(::pwrite(memory_.get(), damaged.data(), damaged.size(), 0), about.st_size);
    const HeldSnapshot reader(same(memory_));
    if (const auto held = reader.newest()) {
      for (const auto& [file, entries] : held->parts.tensors) {
        for (const auto& each : entries) EXPECT_LE(each.bytes.size(), whole.size());
      }
    }
  }
}

TEST_F(HeldSnapshotTest, NamesTheMemoryThatIsNotThere) {
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [] { HeldSnapshot{FileDescriptor(::open("/dev/null", O_RDWR))}; }),
             "has 0 bytes, want a page");
  HeldSnapshot writer(same(memory_));
  writer.hold(State(1, 1'000).parts(), snapshots_);
  ASSERT_EQ(::fcntl(memory_.get(), F_GET_SEALS), F_SEAL_SEAL) << "made without MFD_ALLOW_SEALING";
  const FileDescriptor tight(::memfd_create("tight", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(tight.get(), 4096), 0);
  ASSERT_EQ(::fcntl(tight.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  HeldSnapshot refused(same(tight));
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { refused.hold(State(1, 1'000).parts(), snapshots_); }),
             "no memory for ");
}

}  // namespace
}  // namespace lockstep
