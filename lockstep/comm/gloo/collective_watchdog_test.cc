// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/collective_watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using Work = c10::intrusive_ptr<c10d::Work>;

class SomeWork : public c10d::Work {
 public:
  void end() { finish(); }
};

/// Hears of the first late collective.
struct Heard {
  std::promise<std::string> promise{};
  std::future<std::string> text = promise.get_future();
  std::function<void(const std::string&)> late() {
    return [this](const std::string& what) { promise.set_value(what); };
  }
  bool is_silent() const { return text.wait_for(milliseconds(0)) != std::future_status::ready; }
};

TEST(CollectiveWatchdogs, HearOfAWaitWithoutEnd) {
  Heard heard;
  CollectiveWatchdog watchdog({.limit = milliseconds(20), .look_every = milliseconds(1)}, heard.late());
  const auto work = watchdog.follow("all_reduce", true, []() -> Work { return c10::make_intrusive<SomeWork>(); });
  EXPECT_TRUE(heard.text.get().starts_with("all_reduce that began 0 s ago has not ended"));
}

TEST(CollectiveWatchdogs, HearOfACallWithoutEnd) {
  Heard heard;
  CollectiveWatchdog watchdog({.limit = milliseconds(20), .look_every = milliseconds(1)}, heard.late());
  watchdog.follow("broadcast", false, [&]() -> Work {
    EXPECT_TRUE(heard.text.get().starts_with("broadcast"));
    return nullptr;
  });
}

TEST(CollectiveWatchdogs, AreSilentAboutThoseThatEndHoweverMany) {
  Heard heard;
  CollectiveWatchdog watchdog({.limit = std::chrono::minutes(5), .look_every = milliseconds(1)}, heard.late());
  std::vector<c10::weak_intrusive_ptr<SomeWork>> all;
  for (int i = 0; i < 2000; ++i) {
    auto work = c10::make_intrusive<SomeWork>();
    all.emplace_back(work);
    watchdog.follow("all_reduce", true, [&]() -> Work { return work; });
    work->end();
  }
  watchdog.follow("barrier", false, []() -> Work { return nullptr; });
  int held = 0;
  for (const auto& each : all) held += each.expired() ? 0 : 1;
  EXPECT_EQ(held, 0) << "works hold tensors";
  EXPECT_TRUE(heard.is_silent());
}

TEST(CollectiveWatchdogs, ForgetACallThatThrows) {
  Heard heard;
  {
    CollectiveWatchdog watchdog({.limit = milliseconds(1), .look_every = milliseconds(500)}, heard.late());
    EXPECT_THROW(watchdog.follow("all_reduce", true, []() -> Work { throw std::runtime_error("broken"); }),
                 std::runtime_error);
  }
  EXPECT_TRUE(heard.is_silent());
}

TEST(CollectiveWatchdogs, DoNotAskWorkOnADevice) {
  Heard heard;
  {
    CollectiveWatchdog watchdog({.limit = milliseconds(1), .look_every = milliseconds(500)}, heard.late());
    const auto work = watchdog.follow("all_reduce", false, []() -> Work { return c10::make_intrusive<SomeWork>(); });
  }
  EXPECT_TRUE(heard.is_silent());
}

TEST(CollectiveWatchdogs, EndAWaitSoonerOnceTheProcessWasAskedToStop) {
  Heard heard;
  std::atomic<bool> is_stopping = false;
  CollectiveWatchdog watchdog({.limit = std::chrono::minutes(5),
                               .stop_limit = milliseconds(20),
                               .is_stopping = [&] { return is_stopping.load(); },
                               .look_every = milliseconds(1)},
                              heard.late());
  const auto work = watchdog.follow("all_reduce", true, []() -> Work { return c10::make_intrusive<SomeWork>(); });
  EXPECT_TRUE(heard.is_silent());
  is_stopping = true;
  EXPECT_NE(heard.text.get().find("and the process was asked to stop"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
