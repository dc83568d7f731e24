// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/library_search.h"

#include <gtest/gtest.h>

#include "lockstep/base/elf.h"
#include "tests/support/fake_node.h"

namespace lockstep {
namespace {

using testing::FakeNode;

TEST(LoaderSearch, FindsALibraryOfThisSystem) {
  DoctorContext here;
  const auto path = found_library(here, "libstdc++.so.6");
  if (path.empty()) GTEST_SKIP() << "this system has no libstdc++.so.6 of its own";
  const auto library = shared_library(path);
  ASSERT_TRUE(library);
  EXPECT_NE(std::ranges::find(library->needed, "libc.so.6"), library->needed.end());
  EXPECT_FALSE(is_older(newest_version(library->provides, "GLIBCXX_"), "3.4.9"));
  EXPECT_FALSE(newest_version(library->requires_, "GLIBC_").empty());
  EXPECT_EQ(missing_library(here, path), "");
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
