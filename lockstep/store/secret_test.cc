// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

mode_t mode_of(const fs::path& path) {
  struct stat found {};
  EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777U;
}

TEST(SecretFile, LiesInARunsFolderOrInTheCacheFolder) {
  const Environment env{{"LOCKSTEP_CACHE", "/scratch/cache"}};
  EXPECT_EQ(secret_folder("/scratch/runs/mnist-1", "job", env), "/scratch/runs/mnist-1/.meeting");
  EXPECT_EQ(secret_folder({}, "slurm-4711/0", env), "/scratch/cache/meeting/slurm-4711_0");
}

TEST(SecretFile, IsForThisUserAloneAndGoesWithAllThatWasMadeForIt) {
  const TemporaryFolder folder;
  SecretFile file(folder.path() / "runs/digits/.meeting");
  EXPECT_EQ(file.read(), std::nullopt);
  const auto secret = file.create();
  EXPECT_EQ(mode_of(file.path()), 0600U);
  EXPECT_EQ(mode_of(file.path().parent_path()), 0700U);
  EXPECT_EQ(fs::file_size(file.path()), Secret::kBytes);
  EXPECT_EQ(SecretFile(folder.path() / "runs/digits/.meeting").read(), secret);
  file.remove();
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SecretFile, EachIsDifferent) { EXPECT_NE(Secret::make(), Secret::make()); }

TEST(SecretFile, StaysWhileAnotherStartUsesIt) {
  const TemporaryFolder folder;
  SecretFile first(folder.path() / ".meeting");
  SecretFile second(folder.path() / ".meeting");
  const auto secret = first.create();
  EXPECT_EQ(second.create(), secret);
  first.remove();
  EXPECT_EQ(second.read(), secret);
  second.remove();
  EXPECT_EQ(second.read(), std::nullopt);
}

TEST(SecretFile, AReaderRemovesNothing) {
  const TemporaryFolder folder;
  SecretFile file(folder.path() / ".meeting");
  file.create();
  SecretFile(folder.path() / ".meeting").remove();
  EXPECT_TRUE(fs::exists(file.path()));
}

TEST(SecretFile, AFolderThatWasOpenToOthersBecomesPrivate) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / ".meeting");
  ::chmod((folder.path() / ".meeting").c_str(), 0755);
  SecretFile file(folder.path() / ".meeting");
  file.create();
  EXPECT_EQ(mode_of(file.path().parent_path()), 0700U);
}

TEST(SecretFile, OneThatOthersMayReadIsRefused) {
  const TemporaryFolder folder;
  SecretFile file(folder.path() / ".meeting");
  file.create();
  ::chmod(file.path().c_str(), 0644);
  const auto text = message_of(ErrorKind::kEnvironment, [&] { file.read(); });
  EXPECT_HAS(text, "/.meeting/secret' has the mode 0644, want 0600, so it keeps no secret");
  EXPECT_HAS(text, "hint: remove it and start again");
  ::chmod(file.path().c_str(), 0600);
  ::chmod(file.path().parent_path().c_str(), 0750);
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { file.read(); }), "/.meeting' has the mode 0750, want 0700");
}

TEST(SecretFile, OneOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TemporaryFolder folder;
  SecretFile file(folder.path() / ".meeting");
  file.create();
  ASSERT_EQ(::chown(file.path().c_str(), 12345, 12345), 0);
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { file.read(); }), "belongs to user 12345, want 0");
}

TEST(SecretFile, OneOfAnotherLengthIsRefused) {
  const TemporaryFolder folder;
  SecretFile file(folder.path() / ".meeting");
  file.create();
  std::ofstream(file.path()) << "short";
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { file.read(); }), "holds 5 bytes, want 32");
}

}  // namespace
}  // namespace lockstep
