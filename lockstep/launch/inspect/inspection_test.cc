// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/inspection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "lockstep/watch/page_reader.h"
#include "lockstep/watch/stack_writer.h"

namespace lockstep {
namespace {

using nlohmann::json;

json awaited(Inspection& inspection) {
  while (true) {
    if (auto views = inspection.result()) return *std::move(views);
    std::this_thread::yield();
  }
}

/// A process with a page.
class InspectionTest : public ::testing::Test {
 protected:
  void start(const std::function<void(Page&)>& work) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const FileDescriptor file(::open(page_.give().c_str(), O_RDWR | O_CLOEXEC));
      static Page page(::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
      work(page);
      ::_exit(0);
    }
    while (!page_.sight() || page_.sight()->changes == 0) std::this_thread::yield();
  }
  void TearDown() override {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  SharedPage page_;
  pid_t pid_ = -1;
};

TEST_F(InspectionTest, SeesTheStackAndTheCallOfARank) {
  start([](Page& page) {
    install_stack_writer(page);
    page.enter(Phase::kLoading, 1);
    while (true) ::pause();
  });
  Inspection inspection({{.rank = 3, .pid = pid_, .layout = &page_.layout()}}, {});
  const auto views = awaited(inspection);
  ASSERT_TRUE(views.contains("3")) << views.dump();
  const auto& view = views["3"];
  EXPECT_TRUE(view["stack"].is_array()) << view.dump();
  EXPECT_TRUE(view["stack_note"].is_null());
  EXPECT_TRUE(view["python"].is_null());
  EXPECT_EQ(view["process"]["state"], "S");
  EXPECT_TRUE(view["below"].is_null());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), 0) << "the look leaves no child behind";
}

TEST_F(InspectionTest, SaysWhyAStoppedRankHasNoStack) {
  start([](Page& page) {
    install_stack_writer(page);
    page.enter(Phase::kLoading, 1);
    while (true) ::pause();
  });
  ::kill(pid_, SIGSTOP);
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
  Inspection inspection({{.rank = 0, .pid = pid_, .layout = &page_.layout()}}, {});
  const auto view = awaited(inspection)["0"];
  EXPECT_TRUE(view["stack"].is_null());
  EXPECT_EQ(view["stack_note"], "a stopped process writes no stack");
  EXPECT_EQ(view["process"]["state"], "T");
}

TEST_F(InspectionTest, SeesTheRanksBelowALauncherWithoutAPage) {
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execlp("sh", "sh", "-c", "RANK=0 sleep 1000 & RANK=1 sleep 1000 & wait", nullptr);
    ::_exit(1);
  }
  json view;
  do {
    Inspection inspection({{.rank = 0, .pid = pid_, .layout = &page_.layout()}}, {});
    view = awaited(inspection)["0"];
  } while (!view["below"].is_array() || view["below"].size() < 2);
  EXPECT_EQ(view["below"][0]["rank"], "0");
  EXPECT_EQ(view["below"][1]["rank"], "1");
  for (const auto& each : view["below"]) ::kill(each["pid"].get<pid_t>(), SIGKILL);
}

TEST_F(InspectionTest, OfARankThatIsGoneIsANote) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  Inspection inspection({{.rank = 0, .pid = gone, .layout = nullptr}, {.rank = 1, .pid = gone, .layout = nullptr}}, {});
  const auto views = awaited(inspection);
  EXPECT_EQ(views["0"]["process"]["state"], "?");
  EXPECT_TRUE(views["1"]["stack"].is_null());
}

}  // namespace
}  // namespace lockstep
