// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/endable_works.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using Future = c10::ivalue::Future;

/// A work as of Gloo, which ends when the test says so.
class GlooWork : public c10d::Work {
 public:
  GlooWork() : Work(-1, c10d::OpType::ALLREDUCE) {}
  c10::intrusive_ptr<Future> getFuture() override { return future; }

  c10::intrusive_ptr<Future> future = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(EndableWorks, EndAsGloosDo) {
  EndableWorks works;
  const auto gloo = c10::make_intrusive<GlooWork>();
  const auto work = works.follow(gloo);
  EXPECT_FALSE(work->isCompleted());
  EXPECT_FALSE(works.wait_until_idle(milliseconds(0)));
  std::jthread other([&] { gloo->future->markCompleted(std::vector<at::Tensor>{at::ones({2})}); });
  EXPECT_TRUE(work->wait());
  EXPECT_TRUE(works.wait_until_idle(milliseconds(1000)));
  work->getFuture()->wait();
  EXPECT_TRUE(work->result().at(0).equal(at::ones({2})));
  works.end("too late");
  EXPECT_TRUE(work->isSuccess());
}

TEST(EndableWorks, PassOnTheErrorOfGloo) {
  EndableWorks works;
  const auto gloo = c10::make_intrusive<GlooWork>();
  const auto work = works.follow(gloo);
  gloo->future->setError(std::make_exception_ptr(std::runtime_error("closed by peer")));
  EXPECT_EQ(message_of([&] { work->wait(); }), "closed by peer");
  EXPECT_EQ(message_of([&] { work->getFuture()->waitAndThrow(); }), "closed by peer");
  EXPECT_TRUE(works.wait_until_idle(milliseconds(0)));
}

TEST(EndableWorks, AreEndedAlthoughGlooWaits) {
  EndableWorks works;
  const auto first = c10::make_intrusive<GlooWork>();
  const auto second = c10::make_intrusive<GlooWork>();
  const auto work = works.follow(first);
  const auto future = works.follow(second)->getFuture();  // As the reducer keeps it.
  std::jthread other([&] { works.end("this generation has ended"); });
  EXPECT_EQ(message_of([&] { work->wait(); }), "this generation has ended");
  EXPECT_EQ(message_of([&] { future->waitAndThrow(); }), "this generation has ended");
  other.join();
  EXPECT_FALSE(works.wait_until_idle(milliseconds(0))) << "Gloo's threads still wait";
  // Gloo's time limit comes much later.
  first->future->setError(std::make_exception_ptr(std::runtime_error("timed out")));
  second->future->markCompleted(std::vector<at::Tensor>{});
  EXPECT_TRUE(works.wait_until_idle(milliseconds(0)));
  EXPECT_EQ(message_of([&] { work->wait(); }), "this generation has ended");
}

TEST(EndableWorks, MayBeOverBeforeTheyAreFollowed) {
  EndableWorks works;
  const auto gloo = c10::make_intrusive<GlooWork>();
  gloo->future->markCompleted(std::vector<at::Tensor>{});
  EXPECT_TRUE(works.follow(gloo)->isCompleted());
  EXPECT_TRUE(works.wait_until_idle(milliseconds(0)));
}

}  // namespace
}  // namespace lockstep
