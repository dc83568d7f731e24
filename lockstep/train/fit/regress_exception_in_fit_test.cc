// SPDX-License-Identifier: Apache-2.0
// The fault: a listener threw on one rank, and the program caught the exception. The other ranks then waited for half
// an hour.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;

struct Net : Module {
  Net() { fc = register_module("fc", torch::nn::Linear(4, 3)); }
  at::Tensor training_step(const Batch& batch) override {
    return at::cross_entropy_loss(fc(batch.input()), batch.target());
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd"});
  }
  torch::nn::Linear fc = nullptr;
};

struct Failing : Listener {
  explicit Failing(bool fails) : fails_(fails) {}
  using Listener::on;
  std::string name() const override { return "failing"; }
  Verdict on(const StepEnded& event) override {
    if (fails_ && event.step == 3) throw std::runtime_error("no room in the listener");
    return Verdict::kContinue;
  }

 private:
  bool fails_;
};

RANKS_TEST(ExceptionInFit, ThatARankCatchesIsToldToTheOthers, 3) {
  Net net;
  MadeUpData data(30);
  Failing listener(group.rank() == 1);
  Trainer trainer({.max_epochs = 5});
  trainer.add(listener);
  if (group.rank() == 1) {
    EXPECT_THROW(trainer.fit(net, data, group), std::runtime_error);
  } else {
    EXPECT_HAS(message_of(ErrorKind::kPeer, [&] { trainer.fit(net, data, group); }),
               "rank 1 left the others: no room in the listener");
  }
  // The group still exists on every rank.
  join().barrier();
}

}  // namespace
}  // namespace lockstep
