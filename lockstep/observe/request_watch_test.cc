// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/request_watch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::TemporaryFolder;

constexpr auto kLong = std::chrono::seconds(60);

// The watch looks every second. A test waits for its effect, and not for a fixed time.
template <typename Condition>
void wait_for(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_TRUE(condition());
}

TEST(RequestWatch, AFolderWhoseNameIsNotUtf8GetsItsAnswer) {
  const TemporaryFolder parent;
  const auto folder = parent.path() / "run-\xff";
  std::filesystem::create_directory(folder);
  Request request;
  {
    RequestWatch watch(folder);
    request = leave_request(folder, "stop");
    wait_for([&] { return watch.wants_stop(); });
    watch.written({.step = 7, .path = folder / "step-7"});
  }
  const auto answer = answer_to(folder, request).value();
  EXPECT_EQ(answer["state"], "done");
  EXPECT_EQ(answer["step"], 7);
}

TEST(RequestWatch, AStopIsSeenAndAnsweredAtTheEnd) {
  const TemporaryFolder folder;
  Request request;
  {
    RequestWatch watch(folder.path());
    EXPECT_FALSE(watch.wants_stop());
    request = leave_request(folder.path(), "stop");
    EXPECT_EQ(await_answer(folder.path(), request, false, kLong).value()["state"], "seen");
    wait_for([&] { return watch.wants_stop(); });
    watch.written({.step = 7, .path = "step-7"});
  }
  const auto answer = answer_to(folder.path(), request).value();
  EXPECT_EQ(answer["state"], "done");
  EXPECT_EQ(answer["step"], 7);
  EXPECT_EQ(answer["request"], "stop");
  EXPECT_TRUE(open_requests(folder.path(), {"stop", "save"}).empty());
}

TEST(RequestWatch, ASaveIsAnsweredByTheSaveThatBeganAfterIt) {
  const TemporaryFolder folder;
  RequestWatch watch(folder.path());
  const auto request = leave_request(folder.path(), "save");
  wait_for([&] { return watch.wants_save(); });
  watch.written({.step = 3, .path = "step-3"});
  EXPECT_EQ(answer_to(folder.path(), request).value()["state"], "seen") << "that save had begun before";
  watch.begin_save(5);
  EXPECT_FALSE(watch.wants_save());
  watch.written({.step = 5, .path = "step-5"});
  EXPECT_EQ(answer_to(folder.path(), request).value()["snapshot"], "step-5");
}

TEST(RequestWatch, RefusesWhatWasLeftBeforeAndWhatComesTooLate) {
  const TemporaryFolder folder;
  const auto early = leave_request(folder.path(), "stop");
  Request late;
  {
    const RequestWatch watch(folder.path());
    EXPECT_FALSE(watch.wants_stop());
    late = leave_request(folder.path(), "save");
  }
  EXPECT_EQ(answer_to(folder.path(), early).value()["state"], "refused");
  EXPECT_EQ(answer_to(folder.path(), late).value()["state"], "refused");
}

TEST(OpenRequests, AreThoseOfThisUserAlone) {
  const TemporaryFolder folder;
  const auto ours = leave_request(folder.path(), "stop");
  const auto requests = requests_folder(folder.path());
  std::ofstream(requests / "note.txt") << "no request";
  std::ofstream(requests / "1.json") << "{}";
  std::filesystem::create_symlink(requests / "note.txt", requests / "2.stop");
  std::filesystem::create_directory(requests / "3.stop");
  if (::geteuid() == 0) {
    std::ofstream(requests / "4.stop") << "";
    ASSERT_EQ(::chown((requests / "4.stop").c_str(), 4711, 4711), 0);
  }
  const auto open = open_requests(folder.path(), {"stop", "save"});
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].id, ours.id);
}

TEST(OpenRequests, AFolderThatIsNotThereHasNone) {
  const TemporaryFolder folder;
  EXPECT_TRUE(open_requests(folder.path() / "none", {"stop"}).empty());
}

}  // namespace
}  // namespace lockstep
