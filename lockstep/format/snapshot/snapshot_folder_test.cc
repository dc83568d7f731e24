// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/snapshot_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "lockstep/base/checksum.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/format/snapshot/run_id.h"
#include "lockstep/format/snapshot/snapshot_writer.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::message_of;

class SnapshotFolder : public ::testing::Test {
 protected:
  fs::path snapshots() const { return folder_.path() / "snapshots"; }

  fs::path write(std::int64_t step) const {
    const std::string numbers = "numbers of step " + std::to_string(step);
    const TensorEntry tensor{
        "weight", "U8", {static_cast<std::int64_t>(numbers.size())}, std::as_bytes(std::span(numbers))};
    SnapshotWriter writer(snapshots(), step);
    writer.add_tensors("model.safetensors", std::span(&tensor, 1));
    writer.add_text("state.json", "{}\n");
    return writer.commit();
  }

  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (const auto& entry : listed_snapshots(snapshots())) found.push_back(entry.step);
    return found;
  }

  static std::string refusal_of(const fs::path& snapshot) {
    const std::string message = message_of(ErrorKind::kData, [&] { verify_snapshot(snapshot); });
    const std::string start = snapshot.string() + " is not whole: ";
    EXPECT_TRUE(message.starts_with(start)) << message;
    return message.substr(start.size(), message.find('\n') - start.size());
  }

  static void overwrite(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

  testing::TemporaryFolder folder_;
};

TEST_F(SnapshotFolder, ListsByStepAndKnowsItsOwnNamesOnly) {
  EXPECT_EQ(steps(), std::vector<std::int64_t>{});
  for (const std::int64_t step : {100, 9, 1'000'000}) write(step);
  for (const std::string name :
       {"step-1", "step-00000000010", "step-000000001x", ".tmp-n1-7.step-0000000002", "other"}) {
    fs::create_directory(snapshots() / name);
  }
  fs::create_directory(snapshots() / "step-0000000100.old");
  const auto entries = listed_snapshots(snapshots());
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0].path, snapshots() / "step-0000000009");
  EXPECT_EQ(entries[1].path, snapshots() / "step-0000000100.old");
  EXPECT_EQ(entries[2].path, snapshots() / "step-0000000100");
  EXPECT_EQ(entries[3].step, 1'000'000);
}

TEST_F(SnapshotFolder, VerifiesWhatWasWritten) {
  const fs::path snapshot = write(3);
  EXPECT_NO_THROW(verify_snapshot(snapshot));
  const SnapshotCheck check = checked_snapshot(snapshot);
  EXPECT_EQ(check.files, 3U);
  EXPECT_EQ(check.bytes, fs::file_size(snapshot / "model.safetensors") + 3 + fs::file_size(snapshot / "MANIFEST"));
}

TEST_F(SnapshotFolder, FindsEveryFlippedBit) {
  const fs::path snapshot = write(3);
  int flipped = 0;
  for (const std::string name : {"model.safetensors", "state.json", "MANIFEST"}) {
    const std::string whole = text_of_file(snapshot / name);
    std::fstream file(snapshot / name);
    const auto put = [&](std::size_t at, int byte) {
      file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
    };
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit, ++flipped) {
        put(at, whole[at] ^ (1 << bit));
        ASSERT_FALSE(checked_snapshot(snapshot).faults.empty()) << name << " byte " << at << " bit " << bit;
      }
      put(at, whole[at]);
    }
  }
  EXPECT_GT(flipped, 1800);
  EXPECT_NO_THROW(verify_snapshot(snapshot));
}

TEST_F(SnapshotFolder, NamesEveryFileThatDiffers) {
  const fs::path snapshot = write(3);
  const std::string model = text_of_file(snapshot / "model.safetensors");
  overwrite(snapshot / "model.safetensors", model + "x");
  const std::string want = std::to_string(model.size());
  const std::string longer = std::to_string(model.size() + 1);
  EXPECT_EQ(refusal_of(snapshot), "model.safetensors has " + longer + " bytes, want " + want);
  fs::remove(snapshot / "state.json");
  EXPECT_EQ(refusal_of(snapshot),
            "model.safetensors has " + longer + " bytes, want " + want + "; state.json is missing");
  overwrite(snapshot / "model.safetensors", model);
  overwrite(snapshot / "state.json", "{ }");
  EXPECT_EQ(refusal_of(snapshot),
            "state.json has the checksum " + hex64(xxh3_64("{ }")) + ", want " + hex64(xxh3_64("{}\n")));
}

TEST_F(SnapshotFolder, ReportsWhatIsNoPlainFileAndWaitsForNoPipe) {
  const fs::path snapshot = write(3);
  fs::remove(snapshot / "state.json");
  ASSERT_EQ(::mkfifo((snapshot / "state.json").c_str(), 0600), 0);
  EXPECT_EQ(refusal_of(snapshot), "state.json is not a plain file");
  fs::rename(snapshot / "state.json", snapshot / "MANIFEST");
  EXPECT_EQ(refusal_of(snapshot), "MANIFEST is not a plain file");
  fs::remove(snapshot / "MANIFEST");
  EXPECT_EQ(refusal_of(snapshot), "MANIFEST is missing");
}

TEST_F(SnapshotFolder, ReportsFilesThatManifestDoesNotNameButStaysWhole) {
  const fs::path snapshot = write(3);
  overwrite(snapshot / "notes.txt", "mine");
  EXPECT_NO_THROW(verify_snapshot(snapshot));
  EXPECT_EQ(checked_snapshot(snapshot).extra, std::vector<std::string>{"notes.txt"});
}

TEST_F(SnapshotFolder, SaysThatAPathIsNoFolder) {
  EXPECT_HAS(message_of(ErrorKind::kIo, [] { verify_snapshot("/nowhere/step-0000000001"); }),
             "read '/nowhere/step-0000000001' failed: No such file or directory");
  EXPECT_HAS(message_of(ErrorKind::kIo, [] { verify_snapshot("/dev/null"); }), "failed: Not a directory");
}

TEST_F(SnapshotFolder, NewestWholeOneSkipsDamagedOnesLoudly) {
  for (const std::int64_t step : {1, 2, 3, 4}) write(step);
  overwrite(snapshots() / "step-0000000004" / "MANIFEST", "");
  fs::remove(snapshots() / "step-0000000003" / "state.json");
  overwrite(snapshots() / "step-0000000005", "a file");
  std::vector<std::string> heard;
  const auto on_skip = [&](const SnapshotEntry& entry, const std::string& reason) {
    heard.push_back(std::to_string(entry.step) + ": " + reason);
  };
  const auto newest = newest_whole_snapshot(snapshots(), on_skip);
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 2);
  ASSERT_EQ(heard.size(), 3U);
  EXPECT_HAS(heard[0], "5: read '");
  EXPECT_EQ(heard[1], "4: MANIFEST: the last line is cut short, want a line end after the checksum");
  EXPECT_EQ(heard[2], "3: state.json is missing");

  for (const std::string name : {"step-0000000001", "step-0000000002"}) fs::remove(snapshots() / name / "MANIFEST");
  EXPECT_FALSE(newest_whole_snapshot(snapshots(), on_skip));
  EXPECT_FALSE(newest_whole_snapshot(snapshots(), {}));
  EXPECT_EQ(heard.size(), 8U);
}

TEST_F(SnapshotFolder, PruneKeepsTheNewestAndTheProtected) {
  for (const std::int64_t step : {1, 2, 3, 4, 5}) write(step);
  prune_snapshots(snapshots(), {.newest = 0});
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
  prune_snapshots(snapshots(), {.newest = 3}, snapshots() / "step-0000000001");
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 4, 5}));
  prune_snapshots(snapshots(), {.newest = 1}, snapshots() / "step-0000000001");
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 5}));
  prune_snapshots(snapshots(), {.newest = 1});
  EXPECT_EQ(steps(), std::vector<std::int64_t>{5});
  EXPECT_EQ(std::distance(fs::directory_iterator(snapshots()), fs::directory_iterator()), 3)
      << "latest, run-id and step 5";
}

TEST_F(SnapshotFolder, PruneKeepsOneForEachTimeBesideTheNewest) {
  using std::chrono::minutes;
  const auto now = fs::file_time_type::clock::now();
  const Retention retention{.newest = 2, .every = std::chrono::hours(2)};
  for (std::int64_t step = 1; step <= 12; ++step) {
    const auto made = write(step);
    fs::last_write_time(made, now + minutes(50 * step));
    prune_snapshots(snapshots(), retention, made);
  }
  // One snapshot for every 150 minutes stays (50, 200, 350, 500), and the two newest.
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 4, 7, 10, 11, 12}));
  prune_snapshots(snapshots(), {.newest = 2});
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{11, 12}));
}

TEST_F(SnapshotFolder, RoomIsAskedForAndGivenBack) {
  write(1);
  const auto before = std::distance(fs::directory_iterator(snapshots()), fs::directory_iterator());
  require_room(snapshots(), 0);
  require_room(snapshots(), 1'000'000);
  EXPECT_EQ(std::distance(fs::directory_iterator(snapshots()), fs::directory_iterator()), before);
  const auto text = testing::message_of(ErrorKind::kIo, [&] { require_room(snapshots(), std::uint64_t{1} << 60U); });
  EXPECT_HAS(text, "a snapshot takes 1048576.0 TiB, and " + snapshots().string() + " has no room for it: ");
  EXPECT_HAS(text, " free\n  hint: free some space");
}

TEST_F(SnapshotFolder, FindsASnapshotUnderAnotherStepsName) {
  const auto snapshot = write(4);
  const auto renamed = snapshots() / "step-0000000008";
  fs::rename(snapshot, renamed);
  EXPECT_EQ(refusal_of(renamed), "MANIFEST is of step 4, want 8 as the folder's name says");
  fs::rename(renamed, snapshots() / "mine");
  verify_snapshot(snapshots() / "mine");
}

TEST_F(SnapshotFolder, FindsASnapshotOfAnotherRun) {
  const auto own = write(4);
  fs::rename(snapshots(), folder_.path() / "first");
  write(8);
  verify_snapshot(snapshots() / "latest");
  fs::copy(folder_.path() / "first/step-0000000004", snapshots() / "step-0000000012", fs::copy_options::recursive);
  fs::copy(folder_.path() / "first/step-0000000004", snapshots() / own.filename(), fs::copy_options::recursive);
  const auto first = run_id_of(folder_.path() / "first");
  const auto second = run_id_of(snapshots());
  EXPECT_TRUE(is_run_id(first));
  EXPECT_NE(first, second);
  EXPECT_EQ(refusal_of(snapshots() / own.filename()),
            "MANIFEST is of run " + first + ", want " + second + ", whose folder this is");
  std::vector<std::string> skipped;
  const auto newest = newest_whole_snapshot(
      snapshots(), [&](const auto& entry, const auto&) { skipped.push_back(entry.path.filename()); });
  EXPECT_EQ(newest->step, 8);
  EXPECT_EQ(skipped, (std::vector<std::string>{"step-0000000012"}));
}

TEST_F(SnapshotFolder, KeepsItsRunsIdAlsoIfTheFileThatNamesItIsLost) {
  write(4);
  const auto run = run_id_of(snapshots());
  for (const std::string damage : {"", "no id"}) {
    overwrite(snapshots() / "run-id", damage);
    EXPECT_EQ(run_id_of(snapshots()), "");
    verify_snapshot(snapshots() / "latest");
    write(5);
    EXPECT_EQ(run_id_of(snapshots()), run);
  }
}

// The fault: a file that could not be read was replaced by one with another id, and every snapshot belonged to no run.
TEST_F(SnapshotFolder, KeepsARunsIdThatCannotBeRead) {
  write(4);
  const auto place = snapshots() / "run-id";
  const auto run = run_id_of(snapshots());
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(snapshots().c_str(), 0777), 0);
  ASSERT_EQ(::chmod(place.c_str(), 0), 0);
  {
    const testing::AsNobody nobody;
    EXPECT_HAS(message_of(ErrorKind::kIo, [&] { ensure_run_id(snapshots()); }), place.string());
  }
  ASSERT_EQ(::chmod(place.c_str(), 0600), 0);
  EXPECT_EQ(run_id_of(snapshots()), run);
}

TEST_F(SnapshotFolder, ReadsWhatOlderVersionsAndPythonWrote) {
  write(4);
  const auto snapshot = snapshots() / "step-0000000004";
  const auto manifest = parsed_manifest(text_of_file(snapshot / "MANIFEST"), "MANIFEST");
  overwrite(snapshot / "MANIFEST", manifest_text({.entries = manifest.entries}));
  verify_snapshot(snapshot);
  overwrite(snapshot / "state.json", "123456789");
  // The well-known check value of CRC-32.
  overwrite(snapshot / "MANIFEST", manifest_text({.checksum = ChecksumKind::kCrc32,
                                                  .run = run_id_of(snapshots()),
                                                  .step = 4,
                                                  .entries = {{"state.json", 9, 0xcbf43926}}}));
  verify_snapshot(snapshot);
  overwrite(snapshot / "state.json", "123456780");
  EXPECT_TRUE(refusal_of(snapshot).ends_with(", want cbf43926"));
}

}  // namespace
}  // namespace lockstep
