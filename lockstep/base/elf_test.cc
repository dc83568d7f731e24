// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/elf.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
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

TEST(FunctionNames, AreThoseOfThisProgram) {
  // Where the functions lie in the file: the test asks for its own.
  const auto text = text_of_file("/proc/self/maps");
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  std::optional<std::uint64_t> offset;
  const auto address = reinterpret_cast<std::uint64_t>(&newest_version);
  for (const auto& line : split(text, '\n')) {
    if (!line.ends_with(self.string())) continue;
    const auto begin = std::stoull(line, nullptr, 16);
    const auto end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (address >= begin && address < end) offset = address - begin + std::stoull(split(line, ' ')[2], nullptr, 16);
  }
  ASSERT_TRUE(offset);
  EXPECT_EQ(function_names(self, {*offset, 0, *offset + 4}),
            (std::vector<std::string>{"lockstep::newest_version", "", "lockstep::newest_version"}));
}

TEST(FunctionNames, OfDamagedFilesAreEmpty) {
  const TemporaryFolder folder;
  const auto self = text_of_file("/proc/self/exe").substr(0, 4096);
  const auto path = folder.path() / "cut";
  for (std::size_t size = 0; size < self.size(); size += 7) {
    write_whole(path, self.substr(0, size), false);
    EXPECT_EQ(function_names(path, {100, 5000}), (std::vector<std::string>{"", ""}));
  }
  EXPECT_EQ(function_names(folder.path() / "nowhere", {1}), std::vector<std::string>{""});
}

TEST(FunctionNames, HaveNoParametersAndNoReturnType) {
  EXPECT_EQ(without_parameters("lockstep::Loader::next()"), "lockstep::Loader::next");
  EXPECT_EQ(without_parameters("std::vector<int, std::allocator<int> > a::make<int>(int (*)(int))"), "a::make");
  EXPECT_EQ(without_parameters("lockstep::(anonymous namespace)::read(int)"), "lockstep::(anonymous namespace)::read");
  EXPECT_EQ(without_parameters("a::B::operator()(int) const"), "a::B::operator()");
  EXPECT_EQ(without_parameters("a::operator<<(a::B&)"), "a::operator<<");
  EXPECT_EQ(without_parameters("main"), "main");
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
