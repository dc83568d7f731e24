// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/elf.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/elf_stub.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::TemporaryFolder;

TEST(SharedLibrary, ReadsTheDynamicSection) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "libx.so";
  write_whole(path, testing::elf_stub({.needed = {"liba.so", "libb.so"},
                                       .provides = {"X_1", "X_2"},
                                       .requires_ = {"Y_2"},
                                       .run_path = "/opt/lib:$ORIGIN/deps"}));
  const auto library = shared_library(path);
  ASSERT_TRUE(library);
  EXPECT_EQ(library->needed, (std::vector<std::string>{"liba.so", "libb.so"}));
  EXPECT_EQ(library->provides, (std::vector<std::string>{"X_1", "X_2"}));
  EXPECT_EQ(library->requires_, (std::vector<std::string>{"Y_2"}));
  EXPECT_EQ(library->run_path, (std::vector<std::string>{"/opt/lib", folder.path().string() + "/deps"}));
}

TEST(SharedLibrary, IsAbsentForAFileThatIsNoLibrary) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_whole(path, "no library");
  EXPECT_FALSE(shared_library(path));
  write_whole(path, "");
  EXPECT_FALSE(shared_library(path));
  EXPECT_FALSE(shared_library(folder.path() / "nowhere"));
}

TEST(SharedLibrary, OfATruncatedFileReadsNothingBeyondItsEnd) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cut";
  const auto complete =
      testing::elf_stub({.needed = {"liba.so", "libb.so"}, .provides = {"X_1"}, .requires_ = {"Y_2"}});
  for (std::size_t size = 0; size < complete.size(); ++size) {
    write_whole(path, complete.substr(0, size), false);
    const auto library = shared_library(path);
    if (library) {
      EXPECT_LE(library->needed.size(), 2U);
    }
  }
}

TEST(SymbolVersions, AreOrderedByNumber) {
  EXPECT_TRUE(is_older("3.4.9", "3.4.30"));
  EXPECT_FALSE(is_older("2.31", "2.4"));
  EXPECT_FALSE(is_older("2.4", "2.4"));
  EXPECT_EQ(newest_version({"GLIBCXX_3.4.9", "GLIBCXX_3.4.30", "GLIBCXX_TUNABLES", "CXXABI_1.3.13"}, "GLIBCXX_"),
            "3.4.30");
  EXPECT_EQ(newest_version({"GLIBC_2.4"}, "GLIBCXX_"), "");
}

}  // namespace
}  // namespace lockstep
