// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/cli/commands.h"
#include "lockstep/format/snapshot/snapshot_writer.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::message_of;

class SnapshotCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::int64_t step : {420, 840}) {
      SnapshotWriter writer(run() / "snapshots", step);
      writer.add_text("state.json", "{}\n");
      writer.commit();
    }
  }

  fs::path run() const { return folder_.path(); }
  fs::path snapshot(const std::string& name) const { return run() / "snapshots" / name; }
  void damage(const std::string& name) const { std::ofstream(snapshot(name) / "state.json") << "{}"; }

  /// Returns the standard output of the command.
  static std::string output_of(const std::string& action, const fs::path& path, bool json = false) {
    CLI::App app("lockstep");
    Context context;
    add_snapshot(app, context);
    std::vector<std::string> words = {path.string(), action, "snapshot"};
    if (json) words.insert(words.begin(), "--json");
    ::testing::internal::CaptureStdout();
    try {
      app.parse(words);
    } catch (const Error&) {
      output_before_error_ = ::testing::internal::GetCapturedStdout();
      throw;
    }
    return ::testing::internal::GetCapturedStdout();
  }

  inline static std::string output_before_error_;
  lockstep::testing::TemporaryFolder folder_;
};

TEST_F(SnapshotCommand, ListsOneLineASnapshot) {
  const std::string lines =
      "    step 420       132 B   2 files  whole\n"
      "    step 840       132 B   2 files  whole\n";
  EXPECT_EQ(output_of("ls", run()), lines);
  EXPECT_EQ(output_of("ls", run() / "snapshots"), lines);
  EXPECT_EQ(output_of("verify", run()), lines);
  EXPECT_EQ(output_of("verify", snapshot("latest")), lines.substr(lines.size() / 2));
}

TEST_F(SnapshotCommand, ListsDamagedOnesWithTheReason) {
  damage("step-0000000840");
  std::ofstream(snapshot("step-0000000420") / "notes.txt") << "mine";
  EXPECT_EQ(output_of("ls", run()),
            "    step 420       132 B   2 files  whole; not in MANIFEST: notes.txt\n"
            "    step 840       131 B   2 files  not whole: state.json has 2 bytes, want 3\n");
}

TEST_F(SnapshotCommand, VerifyRefusesWhereOneIsDamaged) {
  damage("step-0000000840");
  const std::string message = message_of(ErrorKind::kData, [&] { output_of("verify", run()); });
  EXPECT_HAS(message, snapshot("step-0000000840").string() + " is not whole: state.json has 2 bytes, want 3\n  hint: ");
  EXPECT_HAS(output_before_error_, "not whole: state.json has 2 bytes, want 3\n");
  message_of(ErrorKind::kData, [&] { output_of("verify", snapshot("step-0000000840") / ""); });
  EXPECT_NO_THROW(output_of("verify", snapshot("step-0000000420")));
  damage("step-0000000420");
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { output_of("verify", run()); }), "; 2 of 2 are damaged\n");
}

TEST_F(SnapshotCommand, PrintsJsonWhateverBytesADamagedManifestHolds) {
  write_whole(snapshot("step-0000000840") / "MANIFEST", "lock\xe9tep-snapshot 2\n");
  write_whole(snapshot("step-0000000840") / "extra\xe9", "");
  const auto found = nlohmann::json::parse(output_of("ls", run(), true));
  EXPECT_HAS(found.at("snapshots").at(1).at("faults").at(0).get<std::string>(), "lock\xef\xbf\xbdtep-snapshot 2");
}

TEST_F(SnapshotCommand, WritesJson) {
  damage("step-0000000840");
  const auto found = nlohmann::json::parse(output_of("ls", run(), true));
  EXPECT_EQ(found.at("schema"), 1);
  EXPECT_EQ(found.at("whole"), false);
  EXPECT_EQ(found.at("snapshots").at(0), nlohmann::json({{"path", snapshot("step-0000000420").string()},
                                                         {"step", 420},
                                                         {"bytes", 132},
                                                         {"files", 2},
                                                         {"whole", true},
                                                         {"faults", nlohmann::json::array()},
                                                         {"extra", nlohmann::json::array()}}));
  EXPECT_EQ(found.at("snapshots").at(1).at("faults"), nlohmann::json({"state.json has 2 bytes, want 3"}));
}

TEST_F(SnapshotCommand, KnowsASnapshotUnderAnotherName) {
  fs::rename(snapshot("step-0000000840"), run() / "best");
  EXPECT_EQ(output_of("verify", run() / "best"), "        best       132 B   2 files  whole\n");
  EXPECT_EQ(nlohmann::json::parse(output_of("verify", run() / "best", true)).at("snapshots").at(0).at("step"), nullptr);
}

TEST_F(SnapshotCommand, SaysWhereThereIsNone) {
  EXPECT_EQ(output_of("ls", run() / "snapshots" / ".."), output_of("ls", run()));
  fs::create_directories(run() / "other" / "snapshots");
  EXPECT_EQ(output_of("ls", run() / "other"), "");
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { output_of("verify", run() / "other"); }),
             "holds no snapshot, want at least one");
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { output_of("ls", run() / "nowhere"); }),
             "is not a folder, want a run folder, its snapshots folder, or a snapshot");
}

}  // namespace
}  // namespace lockstep::cli
