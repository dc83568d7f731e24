// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/python_stack.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

/// A folder with a program named py-spy, which does what a test says.
class PythonStackTest : public ::testing::Test {
 protected:
  ThreadStack read(const std::string& script, seconds patience = seconds(20)) {
    const auto path = folder_.path() / "py-spy";
    write_whole(path, "#!/bin/sh\n" + script, false);
    ::chmod(path.c_str(), 0700);
    return read_python_stack(::getpid(), Environment{{"PATH", folder_.path().string() + ":/usr/bin:/bin"}}, patience);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(PythonStackTest, HasTheLinesOfTheMainThread) {
  // As py-spy 0.4 writes it, for the process that it was given.
  const auto stack = read(R"(test "$1 $2 $3 $4" = "dump --nonblocking --json --pid" || exit 9
cat <<END
[{"pid": $5, "thread_id": 1, "thread_name": "pin", "os_thread_id": 1, "active": false, "owns_gil": false,
  "frames": [{"name": "loop", "filename": "/x/pin.py", "short_filename": "pin.py", "line": 3, "locals": null}]},
 {"pid": $5, "thread_id": 2, "thread_name": "MainThread", "os_thread_id": $5, "active": true, "owns_gil": true,
  "frames": [{"name": "read", "filename": "/x/data.py", "short_filename": "data.py", "line": 31, "locals": null},
             {"name": "<module>", "filename": "/x/train.py", "short_filename": "train.py", "line": 7, "locals": null}]}]
END)");
  EXPECT_EQ(stack.note, "");
  EXPECT_EQ(stack.frames, (std::vector<std::string>{"read (data.py:31)", "<module> (train.py:7)"}));
}

TEST_F(PythonStackTest, SaysThatTheSystemForbidsIt) {
  const auto stack = read("echo 'Error: Permission Denied: Try running again with elevated permissions' >&2; exit 1");
  EXPECT_TRUE(stack.frames.empty());
  EXPECT_HAS(stack.note, "the system forbids py-spy to read the process (Error: Permission Denied");
}

TEST_F(PythonStackTest, SaysWhatElseWentWrong) {
  EXPECT_EQ(read("echo 'Error: Failed to find python version' >&2; exit 1").note,
            "py-spy failed: Error: Failed to find python version");
  EXPECT_EQ(read("echo nonsense").note, "py-spy gave no threads");
  EXPECT_EQ(read("echo '[{\"frames\": [{\"name\": 3}]}]'").note, "py-spy gave frames of another form");
}

TEST_F(PythonStackTest, IsGivenUpWithPySpyThatHangs) {
  const auto start = Clock::now();
  EXPECT_EQ(read("trap '' TERM; while :; do sleep 100; done", seconds(1)).note, "py-spy took too long");
  EXPECT_LT(seconds_between(start, Clock::now()), 50);
}

TEST_F(PythonStackTest, SaysHowToHavePySpy) {
  const auto stack = read_python_stack(::getpid(), Environment{{"PATH", folder_.path().string()}}, seconds(20));
  EXPECT_HAS(stack.note, "py-spy is not there");
  EXPECT_HAS(stack.note, "pip install py-spy");
}

TEST(RunsPython, IsFalseForThisProgram) { EXPECT_FALSE(runs_python(::getpid())); }

}  // namespace
}  // namespace lockstep
