// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor_elf.h"

#include <gtest/gtest.h>

#include "tests/support/fake_node.h"

namespace lockstep {
namespace {

using testing::FakeNode;

TEST(SharedLibrary, ReadsALibraryOfThisSystem) {
  Examination here;
  const auto path = found_library(here, "libstdc++.so.6");
  if (path.empty()) GTEST_SKIP() << "this system has no libstdc++.so.6 of its own";
  const auto library = shared_library(path);
  ASSERT_TRUE(library);
  EXPECT_NE(std::ranges::find(library->needed, "libc.so.6"), library->needed.end());
  EXPECT_FALSE(is_older(newest_version(library->provides, "GLIBCXX_"), "3.4.9"));
  EXPECT_FALSE(newest_version(library->requires_, "GLIBC_").empty());
  EXPECT_EQ(missing_library(here, path), "");
}

TEST(SharedLibrary, IsNothingForWhatIsNone) {
  FakeNode node;
  node.write("/text", "no library");
  node.write("/empty", "");
  const auto whole = testing::elf_stub({.needed = {"liba.so", "libb.so"}, .provides = {"X_1"}, .requires_ = {"Y_2"}});
  EXPECT_EQ(shared_library(node.path("/text")), std::nullopt);
  EXPECT_EQ(shared_library(node.path("/empty")), std::nullopt);
  EXPECT_EQ(shared_library(node.path("/nowhere")), std::nullopt);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    node.write("/cut", whole.substr(0, size));
    const auto library = shared_library(node.path("/cut"));  // Must not read beyond its end.
    if (library) {
      EXPECT_LE(library->needed.size(), 2U);
    }
  }
}

TEST(SharedLibrary, VersionsAreOrderedByNumber) {
  EXPECT_TRUE(is_older("3.4.9", "3.4.30"));
  EXPECT_FALSE(is_older("2.31", "2.4"));
  EXPECT_EQ(newest_version({"GLIBCXX_3.4.9", "GLIBCXX_3.4.30", "GLIBCXX_TUNABLES", "CXXABI_1.3.13"}, "GLIBCXX_"),
            "3.4.30");
}

TEST(LoaderSearch, FollowsRunPathAndTheConfiguredFolders) {
  FakeNode node;
  const auto stub = testing::elf_stub({});
  node.write("/opt/a/libx.so", stub);
  EXPECT_EQ(found_library(node.of, "libx.so"), "");
  EXPECT_EQ(found_library(node.of, "libx.so", {"/opt/a"}), node.path("/opt/a/libx.so"));
  EXPECT_EQ(found_library(node.of, "libx.so", {node.path("/opt/a").string()}), node.path("/opt/a/libx.so"));
  node.write("/etc/ld.so.conf", "# ours\ninclude ld.so.conf.d/*.conf\n");
  node.write("/etc/ld.so.conf.d/a.conf", "/opt/a\n");
  EXPECT_EQ(found_library(node.of, "libx.so"), node.path("/opt/a/libx.so"));
}

}  // namespace
}  // namespace lockstep
