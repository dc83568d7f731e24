// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/run_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "tests/support/process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "run folder-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    root_ = folder;
  }
  void TearDown() override { fs::remove_all(root_); }

  Environment env() const { return Environment{{"LOCKSTEP_RUNS", root_.string()}}; }

  fs::path root_;
};

template <typename Action>
std::string message_of(ErrorKind kind, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

TEST_F(RunFolderTest, IsMadeWithItsPartsAndNothingElse) {
  const RunFolder folder = RunFolder::create(root_ / "a" / "digits-1");
  EXPECT_TRUE(fs::is_directory(folder.snapshots()));
  EXPECT_TRUE(fs::is_directory(folder.logs()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
  EXPECT_EQ(folder.rank_log(3), folder.path() / "logs" / "rank-0003.log");
  EXPECT_EQ(folder.rank_log(12345), folder.path() / "logs" / "rank-12345.log");
}

TEST_F(RunFolderTest, MadeAgainKeepsWhatItHolds) {
  const RunFolder folder = RunFolder::create(root_ / "digits-1");
  write_whole(folder.recipe(), "[model]\n", false);
  RunFolder::create(root_ / "digits-1");
  EXPECT_EQ(text_of_file(folder.recipe()), "[model]\n");
}

TEST_F(RunFolderTest, FollowsTheUmask) {
  const mode_t before = ::umask(027);
  const RunFolder folder = RunFolder::create(root_ / "digits-1");
  folder.finish("{}");
  ::umask(before);
  EXPECT_EQ(fs::status(folder.path()).permissions(), fs::perms{0750});
  EXPECT_EQ(fs::status(folder.logs()).permissions(), fs::perms{0750});
  EXPECT_EQ(fs::status(folder.path() / "result.json").permissions(), fs::perms{0640});
}

TEST_F(RunFolderTest, NamesThePathAndTheReasonWhereItCannotBeMade) {
  write_whole(root_ / "file", "x", false);
  const std::string text = message_of(ErrorKind::kIo, [&] { RunFolder::create(root_ / "file" / "digits-1"); });
  EXPECT_NE(text.find("file/digits-1' failed: Not a directory"), std::string::npos) << text;
  EXPECT_EQ(text_of_file(root_ / "file"), "x");
}

TEST_F(RunFolderTest, NamesThePathAndTheReasonWhereItCannotBeWritten) {
  fs::permissions(root_, fs::perms{0755});
  fs::create_directory(root_ / "closed");
  fs::permissions(root_ / "closed", fs::perms{0555});
  const std::string text = message_of(ErrorKind::kIo, [&] {
    const testing::AsNobody nobody;
    RunFolder::create(root_ / "closed");
  });
  EXPECT_NE(text.find("closed/snapshots' failed: Permission denied"), std::string::npos) << text;
  fs::permissions(root_ / "closed", fs::perms{0755});
}

TEST_F(RunFolderTest, NoticesBeforeAnyStepThatFoldersCanBeMadeButNoBytesWritten) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &none);
  const std::string text = message_of(ErrorKind::kIo, [&] { RunFolder::create(root_ / "digits-1"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_NE(text.find("digits-1/.probe-"), std::string::npos) << text;
  EXPECT_NE(text.find("failed: File too large"), std::string::npos) << text;
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "digits-1"), fs::directory_iterator()), 2);
}

TEST_F(RunFolderTest, OpensOnlyWhatHoldsARun) {
  std::string text = message_of(ErrorKind::kIo, [&] { RunFolder::open(root_ / "none"); });
  EXPECT_NE(text.find("there is no run folder"), std::string::npos) << text;
  fs::create_directory(root_ / "other");
  text = message_of(ErrorKind::kIo, [&] { RunFolder::open(root_ / "other"); });
  EXPECT_NE(text.find("other' holds no run"), std::string::npos) << text;
  write_whole(RunFolder::create(root_ / "digits-1").recipe(), "", false);
  EXPECT_EQ(RunFolder::open(root_ / "digits-1").path(), root_ / "digits-1");
}

TEST_F(RunFolderTest, KeepsTheFinalObjectOfAFinishedRun) {
  const RunFolder folder = RunFolder::create(root_ / "digits-1");
  EXPECT_FALSE(folder.is_finished());
  EXPECT_EQ(folder.result(), std::nullopt);
  folder.finish(R"({"schema":1,"val_loss":null})");
  EXPECT_TRUE(folder.is_finished());
  EXPECT_EQ(folder.result(), R"({"schema":1,"val_loss":null})");
}

TEST_F(RunFolderTest, SaysHowToGoOnFromADamagedResult) {
  const RunFolder folder = RunFolder::create(root_ / "digits-1");
  write_whole(folder.path() / "result.json", "{\"schema\":", false);
  const std::string text = message_of(ErrorKind::kData, [&] { folder.result(); });
  EXPECT_NE(text.find("result.json' holds no JSON object"), std::string::npos) << text;
}

TEST_F(RunFolderTest, OfAJobIsTheSameEachTime) {
  EXPECT_EQ(run_dir_of_job("digits", "56.0", env()), root_ / "digits-56.0");
  RunFolder::create(root_ / "digits-56.0");
  EXPECT_EQ(run_dir_of_job("digits", "56.0", env()), root_ / "digits-56.0");
  EXPECT_EQ(run_dir_of_job("digits", "56.0", {}), fs::path("runs/digits-56.0"));
}

TEST_F(RunFolderTest, OutsideAJobIsNamedByTimeAndNeverTwice) {
  const std::chrono::system_clock::time_point now{std::chrono::seconds{1795250970}};
  EXPECT_EQ(run_dir_at("digits", now, env()), root_ / "digits-20261121-084930");
  fs::create_directory(root_ / "digits-20261121-084930");
  EXPECT_EQ(run_dir_at("digits", now, env()), root_ / "digits-20261121-084930-2");
  fs::create_directory(root_ / "digits-20261121-084930-2");
  EXPECT_EQ(run_dir_at("digits", now, env()), root_ / "digits-20261121-084930-3");
}

TEST_F(RunFolderTest, NameHoldsNothingThatAShellWouldMind) {
  EXPECT_EQ(run_dir_of_job("my net/../$x", "5", env()), root_ / "my-net-..--x-5");
}

TEST_F(RunFolderTest, ListsRunsByNameAndLeavesOutWhatIsNone) {
  for (const char* name : {"digits-2", "digits-1"}) {
    write_whole(RunFolder::create(root_ / name).recipe(), "", false);
  }
  RunFolder::open(root_ / "digits-2").finish("{}");
  fs::create_directory(root_ / "other");
  write_whole(root_ / "notes.txt", "", false);
  const auto runs = listed_runs(root_);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].path, root_ / "digits-1");
  EXPECT_FALSE(runs[0].is_finished);
  EXPECT_TRUE(runs[1].is_finished);
  EXPECT_TRUE(listed_runs(root_ / "none").empty());
}

TEST_F(RunFolderTest, SaysWhyRunsCannotBeListed) {
  write_whole(root_ / "notes.txt", "", false);
  const std::string text = message_of(ErrorKind::kIo, [&] { listed_runs(root_ / "notes.txt"); });
  EXPECT_NE(text.find("notes.txt' failed: Not a directory"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
