// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

/// While an object of this class lives, no file of this process can grow beyond `bytes`. A longer write fails as on a
/// full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

std::size_t entries_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(CheckMayRead, NamesWhatTheSystemRefusesAndNothingElse) {
  const TemporaryFolder folder;
  const auto loop = folder.path() / "loop";
  std::filesystem::create_symlink("loop", loop);
  const auto file = folder.path() / "file";
  write_whole(file, "text");

  for (const auto& fine : {folder.path(), file, folder.path() / "missing", file / "below", std::filesystem::path()}) {
    EXPECT_NO_THROW(check_may_read(fine)) << fine;
  }
  for (const auto& refused : {loop, loop / "below"}) {
    EXPECT_EQ(message_of(ErrorKind::kIo, [&] { check_may_read(refused); }),
              "look at '" + refused.string() +
                  "' failed: Too many levels of symbolic links\n  hint: check the path and its permissions");
  }
}

TEST(CheckMayRead, WantsNoMoreOfAFolderThanThatItMayBeEntered) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  const auto entered = folder.path() / "entered";
  fs::create_directory(entered);
  fs::permissions(entered, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec);
  const auto closed = folder.path() / "closed";
  fs::create_directory(closed);
  fs::permissions(closed, fs::perms::none);

  {
    const testing::AsNobody nobody;
    EXPECT_NO_THROW(check_may_read(entered));
    EXPECT_EQ(message_of(ErrorKind::kIo, [&] { check_may_read(closed); }), io_error("look at", closed, EACCES).what());
    EXPECT_THROW(check_may_read(closed / "file"), Error);
  }
  for (const auto& each : {entered, closed}) fs::permissions(each, fs::perms::owner_all);
}

TEST(TextOfFile, ReadsEveryByteWhateverTheLength) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0U, 1U, 16383U, 16384U, 16385U, 100000U}) {
    std::string text(size, 'x');
    if (size > 2) text[size / 2] = '\0';
    write_whole(folder.path() / "file", text, /*durable=*/false);
    EXPECT_EQ(text_of_file(folder.path() / "file"), text) << size;
  }
}

TEST(TextOfFile, NamesThePathAndTheReason) {
  const auto missing = message_of(ErrorKind::kIo, [] { text_of_file("/nowhere/file"); });
  EXPECT_HAS(missing, "open '/nowhere/file' failed: No such file or directory");
  EXPECT_HAS(missing, "hint: check the spelling");
  EXPECT_HAS(message_of(ErrorKind::kIo, [] { text_of_file("/"); }), "read '/' failed: Is a directory");
}

TEST(WriteWhole, ReplacesTheContentAndLeavesNothingBesideIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_whole(path, "a long first text");
  write_whole(path, "second");
  EXPECT_EQ(text_of_file(path), "second");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(WriteWhole, KeepsTheOldContentWhereTheDiskIsFull) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_whole(path, "old");
  {
    const FileSizeLimit limit(64);
    EXPECT_HAS(message_of(ErrorKind::kIo, [&] { write_whole(path, std::string(1000, 'x')); }), "File too large");
  }
  EXPECT_EQ(text_of_file(path), "old");
  EXPECT_EQ(entries_in(folder.path()), 1U) << "the part that was written is still there";
}

TEST(WriteWhole, FailsWhereAFolderHasThatName) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "taken";
  make_folder(path / "inside");
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { write_whole(path, "text"); }), "rename '" + path.string() + "' failed");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(WriteWhole, TakesANameWithoutAFolder) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_whole("here", "text");
  EXPECT_EQ(text_of_file("here"), "text");
  std::filesystem::current_path(before);
}

TEST(WriteAll, SaysHowToGoOnWhereTheDeviceIsFull) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  const std::string text = "text";
  const auto message =
      message_of(ErrorKind::kIo, [&] { write_all(full.get(), std::as_bytes(std::span(text)), "/dev/full"); });
  EXPECT_HAS(message, "write '/dev/full' failed: No space left on device");
  EXPECT_HAS(message, "what was saved before is untouched");
}

TEST(MakeFolder, MakesParentsAndAcceptsOneThatIsThere) {
  const TemporaryFolder folder;
  make_folder(folder.path() / "a/b/c");
  make_folder(folder.path() / "a/b/c");
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "a/b/c"));
  write_whole(folder.path() / "file", "", /*durable=*/false);
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { make_folder(folder.path() / "file/x"); }), "Not a directory");
}

TEST(MakeDurableFolder, MakesParentsAndTakesAnyWayToWriteAPath) {
  const TemporaryFolder folder;
  make_durable_folder(folder.path() / "a/b/c/");
  make_durable_folder(folder.path() / "a/../a/b/d");
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "a/b/c"));
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "a/b/d"));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  make_durable_folder("here");
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "here"));
  write_whole(folder.path() / "file", "", /*durable=*/false);
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { make_durable_folder(folder.path() / "file/x"); }), "Not a directory");
}

TEST(MakeDurableFolder, WorksBelowAFolderThatMayNotBeRead) {
  const TemporaryFolder folder;
  const auto box = folder.path() / "box";
  make_folder(box);
  std::filesystem::permissions(box, std::filesystem::perms::owner_write | std::filesystem::perms::owner_exec);
  make_durable_folder(box / "run");
  std::filesystem::permissions(box, std::filesystem::perms::owner_all);
  EXPECT_TRUE(std::filesystem::is_directory(box / "run"));
}

TEST(FileDescriptor, IsClosedWithItsLastOwner) {
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) != -1; };
  int number = -1;
  {
    FileDescriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = first.get();
    FileDescriptor second(std::move(first));
    EXPECT_TRUE(is_open(number));
    FileDescriptor& same = second;
    second = std::move(same);
    EXPECT_TRUE(is_open(number)) << "assigning it to itself closed it";
  }
  EXPECT_FALSE(is_open(number));
}

}  // namespace
}  // namespace lockstep
