// SPDX-License-Identifier: Apache-2.0
#include "lockstep/agent/cache_pack.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/node_folder.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

void fail(const std::string& text) { FAIL() << text; }

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// One node of a job, with its own folder for caches.
struct Node {
  explicit Node(const fs::path& pack_path) : pack(pack_path, caches()) {}
  fs::path caches() const { return folder.path() / "caches"; }
  fs::path own(int local_rank) const { return caches() / ("rank-" + std::to_string(local_rank)); }

  TemporaryFolder folder;
  CachePack pack;
};

std::vector<std::string> names_of(const CachedFiles& files) {
  std::vector<std::string> names;
  for (const auto& [name, file] : files) names.push_back(name);
  return names;
}

TEST(CachePack, ALaterJobStartsFromWhatAnEarlierOneCompiled) {
  const TemporaryFolder shared;
  const fs::path path = shared.path() / "node-caches/site.zip";
  {
    const Node node(path);
    node.pack.warm(fail);
    node.pack.make_own(node.own(0));
    node.pack.make_own(node.own(1));
    put(node.caches() / "triton/ab/kernel.hsaco", std::string("\x7f"
                                                              "ELF\0code",
                                                              9));
    put(node.own(0) / "gfx90a68.ufdb.txt", "found by rank 0");
    put(node.own(1) / "gfx90a68.ufdb.txt", "found by rank 1");
    EXPECT_TRUE(node.pack.give_back(node.pack.files()));
  }
  const Node later(path);
  later.pack.warm(fail);
  for (const int local_rank : {0, 1, 2}) {
    later.pack.make_own(later.own(local_rank));
    EXPECT_EQ(text_of_file(later.own(local_rank) / "gfx90a68.ufdb.txt"), "found by rank 0");
  }
  EXPECT_EQ(text_of_file(later.caches() / "triton/ab/kernel.hsaco"), std::string("\x7f"
                                                                                 "ELF\0code",
                                                                                 9));
  for (const auto& [name, file] : later.pack.files()) EXPECT_LE(file.changed_ns, later.pack.warmed_ns()) << name;
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(later.caches().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0700U);
}

TEST(CachePack, FoldersThatWereUnpackedArePrivateWhateverTheUmask) {
  for (const mode_t mask : {0022, 0077, 0000}) {
    const TemporaryFolder shared;
    const testing::Umask set(mask);
    const Node node(shared.path() / "site.zip");
    node.pack.warm(fail);
    node.pack.make_own(node.own(0));
    put(node.caches() / "triton/ab/kernel.hsaco", "code");
    put(node.own(0) / "miopen/found.txt", "found");
    ASSERT_TRUE(node.pack.give_back(node.pack.files()));
    const Node later(shared.path() / "site.zip");
    later.pack.warm(fail);
    EXPECT_NO_THROW(make_private_folder(later.caches() / "triton"));
    EXPECT_NO_THROW(later.pack.make_own(later.own(1)));
    for (const auto& entry : fs::recursive_directory_iterator(later.caches())) {
      if (!entry.is_directory()) continue;
      EXPECT_EQ(entry.status().permissions() & fs::perms::all, fs::perms::owner_all)
          << entry.path() << " under " << mask;
    }
  }
}

TEST(CachePack, WhatIsWrittenRightAfterItWasUnpackedIsNew) {
  const TemporaryFolder shared;
  for (const std::string name : {"triton/first", "triton/second"}) {
    const Node node(shared.path() / "site.zip");
    // The time of a file comes from a clock that ticks every few milliseconds, or once a second. This sets a new file's
    // time to the last tick.
    const std::array<struct timespec, 2> tick{timespec{::time(nullptr), 0}, timespec{::time(nullptr), 0}};
    node.pack.warm(fail);
    put(node.caches() / name, "code");
    ASSERT_EQ(::utimensat(AT_FDCWD, (node.caches() / name).c_str(), tick.data(), 0), 0);
    const auto files = node.pack.files();
    for (const auto& [each, file] : files) EXPECT_EQ(file.changed_ns > node.pack.warmed_ns(), each == name) << each;
    ASSERT_TRUE(node.pack.give_back(files));
  }
}

TEST(CachePack, TwoJobsLoseNothingOfEachOther) {
  const TemporaryFolder shared;
  const fs::path path = shared.path() / "site.zip";
  const Node first(path);
  const Node second(path);
  first.pack.warm(fail);
  second.pack.warm(fail);
  put(first.caches() / "triton/a", "of the first");
  put(first.caches() / "triton/both", "old");
  put(second.caches() / "triton/b", "of the second");
  put(second.caches() / "triton/both", "new");
  EXPECT_TRUE(first.pack.give_back(first.pack.files()));
  EXPECT_TRUE(second.pack.give_back(second.pack.files()));
  const Node later(path);
  later.pack.warm(fail);
  EXPECT_EQ(names_of(later.pack.files()), (std::vector<std::string>{"triton/a", "triton/b", "triton/both"}));
  EXPECT_EQ(text_of_file(later.caches() / "triton/both"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(shared.path()), {}), 1) << "nothing is left beside the pack";
}

TEST(CachePack, ADamagedPackIsLeftOutWithAWord) {
  const TemporaryFolder shared;
  const fs::path path = shared.path() / "site.zip";
  for (const std::string& damage : {std::string("no zip file"), std::string()}) {
    put(path, damage);
    const Node node(path);
    std::string told;
    node.pack.warm([&](const std::string& text) { told = text; });
    EXPECT_NE(told.find("the caches of earlier jobs are left out"), std::string::npos) << told;
    EXPECT_TRUE(fs::is_empty(node.caches()));
    EXPECT_TRUE(node.pack.files().empty());
  }
}

TEST(CachePack, IsGivenBackOverADamagedOneAfterAWord) {
  const TemporaryFolder shared;
  const fs::path path = shared.path() / "site.zip";
  const Node node(path);
  node.pack.warm(fail);
  put(path, "no zip file");
  put(node.caches() / "triton/a", "a");
  EXPECT_TRUE(node.pack.give_back(node.pack.files()));
  const Node later(path);
  later.pack.warm(fail);
  EXPECT_EQ(text_of_file(later.caches() / "triton/a"), "a");
}

TEST(CachePack, TasksOfANodeThatStartTogetherAllFindItWhole) {
  const TemporaryFolder shared;
  const fs::path path = shared.path() / "site.zip";
  {
    const Node node(path);
    node.pack.warm(fail);
    for (int i = 0; i < 200; ++i) put(node.caches() / "triton" / std::to_string(i), std::string(4096, 'x'));
    EXPECT_TRUE(node.pack.give_back(node.pack.files()));
  }
  const Node later(path);
  std::vector<pid_t> tasks(8);
  for (auto& task : tasks) {
    task = ::fork();
    if (task != 0) continue;
    bool is_whole = true;
    later.pack.warm([&](const std::string&) { is_whole = false; });
    ::_exit(is_whole && later.pack.files().size() == 200 ? 0 : 1);
  }
  for (const auto task : tasks) {
    int status = -1;
    ASSERT_EQ(::waitpid(task, &status, 0), task);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(later.folder.path()), {}), 2) << "the folder and its lock";
}

TEST(CachePack, LeavesOutDatabasesThatAreBeingWrittenAndWhatPasses) {
  const TemporaryFolder shared;
  const Node node(shared.path() / "site.zip");
  node.pack.warm(fail);
  node.pack.make_own(node.own(0));
  for (const auto* name : {"whole.ukdb", "torn.ukdb", "torn.ukdb-journal", "x.lock", "with space", "y.tmp"})
    put(node.own(0) / name, "x");
  fs::create_symlink("/etc/passwd", node.caches() / "link");
  EXPECT_EQ(names_of(node.pack.files()), std::vector<std::string>{"rank/whole.ukdb"});
}

TEST(CachePack, KeepsThePackWhereAFileChangesMeanwhile) {
  const TemporaryFolder shared;
  const fs::path path = shared.path() / "site.zip";
  const Node node(path);
  node.pack.warm(fail);
  put(node.caches() / "triton/a", "first");
  EXPECT_TRUE(node.pack.give_back(node.pack.files()));
  auto files = node.pack.files();
  files["triton/a"].changed_ns -= 1;
  EXPECT_FALSE(node.pack.give_back(files));
  put(node.caches() / "big", "x");
  fs::resize_file(node.caches() / "big", CachePack::kMostBytes);
  EXPECT_FALSE(node.pack.give_back(node.pack.files()));
  const Node later(path);
  later.pack.warm(fail);
  EXPECT_EQ(names_of(later.pack.files()), std::vector<std::string>{"triton/a"});
}

TEST(CachePack, SaysWhereItCannotBeWritten) {
  const TemporaryFolder shared;
  put(shared.path() / "file", "");
  const Node node(shared.path() / "file/site.zip");
  node.pack.warm(fail);
  put(node.caches() / "a", "a");
  EXPECT_THROW(node.pack.give_back(node.pack.files()), Error);
}

}  // namespace
}  // namespace lockstep
