// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/node_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

Placement in_job() {
  Placement at;
  at.job = "4711_3.0-r1";
  at.node_rank = 2;
  return at;
}

TEST(NodeFolder, BearsUserJobAndNodeSoThatNoTwoMeet) {
  const std::string name = "lockstep-" + std::to_string(::geteuid()) + "-4711_3.0-r1-2";
  EXPECT_EQ(node_folder(in_job(), {}, {}), "/tmp/" + name);
  EXPECT_EQ(node_folder(in_job(), {}, {.caches = {.node_local = "/mnt/bb/ada"}}), "/mnt/bb/ada/" + name);
}

TEST(NodeFolder, LiesInTheUsersTmpdirWhereThatIsLocal) {
  const TemporaryFolder local;
  EXPECT_EQ(node_folder(in_job(), {{"TMPDIR", local.path().string()}}, {}).parent_path(), local.path());
}

TEST(NodeFolder, IsMadeForThisUserAloneByWhoeverComesFirst) {
  const TemporaryFolder parent;
  const fs::path folder = parent.path() / "node";
  const mode_t before = ::umask(0);
  make_private_folder(folder);
  make_private_folder(folder);
  ::umask(before);
  EXPECT_EQ(fs::status(folder).permissions() & fs::perms::all, fs::perms::owner_all);
}

TEST(NodeFolder, IsRefusedWhereOthersMayEnterIt) {
  const TemporaryFolder parent;
  const fs::path folder = parent.path() / "node";
  fs::permissions(parent.path(), fs::perms::all | fs::perms::sticky_bit);  // As /tmp is.
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::all);
  const auto said = message_of(ErrorKind::kEnvironment, [&] { make_private_folder(folder); });
  EXPECT_HAS(said, "with mode 777, want user");
  EXPECT_HAS(said, "set TMPDIR to a folder of your own");
}

TEST(NodeFolder, IsMadePrivateWhereNobodyElseCouldReachIt) {
  const TemporaryFolder parent;
  const fs::path folder = parent.path() / "caches";
  fs::create_directory(folder);
  fs::permissions(parent.path(), fs::perms::owner_all);
  fs::permissions(folder, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  make_private_folder(folder);
  EXPECT_EQ(fs::status(folder).permissions() & fs::perms::all, fs::perms::owner_all);
}

TEST(NodeFolder, IsRefusedWhereItIsALinkToSomewhere) {
  const TemporaryFolder parent;
  fs::create_directory_symlink(parent.path(), parent.path() / "node");
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { make_private_folder(parent.path() / "node"); }), "open");
}

TEST(NodeFolder, WhatCannotBeMadeIsNamed) {
  EXPECT_HAS(message_of(ErrorKind::kIo, [] { make_private_folder("/proc/nowhere/node"); }), "/proc/nowhere/node");
}

}  // namespace
}  // namespace lockstep
