// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/validator.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/models/batch_norm.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/connected_parts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;

struct Net : Module {
  Net() {
    torch::manual_seed(11);
    norm = register_module("norm", std::make_shared<BatchNorm>(4));
    fc = register_module("fc", torch::nn::Linear(4, 3));
  }
  at::Tensor loss(const Batch& batch) {
    return at::cross_entropy_loss(fc(norm->forward(batch.input())).to(at::kDouble), batch.target());
  }
  at::Tensor training_step(const Batch& batch) override { return loss(batch); }
  void validation_step(const Batch& batch) override {
    EXPECT_FALSE(is_training());
    if (++validated == fails_at) throw std::runtime_error("no such label");
    log("val_loss", loss(batch));
    log("samples", 1.0);
  }
  std::map<std::string, double> on_validation_end(Group&, const std::map<std::string, double>& means) override {
    return {{"twice", 2 * means.at("val_loss")}};
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5});
  }

  int validated = 0, fails_at = -1;
  std::shared_ptr<BatchNorm> norm;
  torch::nn::Linear fc = nullptr;
};

// An extension that sets the module's bias to 7 for a validation, far from the bias that was trained.
struct Sevens : Extension {
  explicit Sevens(Net& of) : net(of) {}
  std::string name() const override { return "sevens"; }
  void start(Module&) override {}
  void after_step(const TrainingState&) override {}
  void before_validation() override { swap(); }
  void after_validation() override { swap(); }
  bool wants_fresh_statistics() const override { return wants; }
  void keep_statistics() override {
    mean = net.norm->named_buffers()["running_mean"].clone();
    wants = false;
  }
  void swap() {
    const torch::NoGradGuard no_grad;
    const auto own = net.fc->bias.data().clone();
    net.fc->bias.copy_(other);
    other = own;
  }

  Net& net;
  at::Tensor other = at::tensor({7.0F, 0.0F, 0.0F});
  bool wants = false;
  at::Tensor mean;
};

struct Parts : testing::ConnectedParts<Net> {
  explicit Parts(Group& group_of_ranks) : ConnectedParts(group_of_ranks, MadeUpData(6, 24)) {
    net.metrics().begin_batch(3);
    net.metrics().add("train_mean", 0.25);
  }
  std::optional<Validator::Metrics> validate() {
    return validator.validate({}, stop, [this] { ++saved; });
  }
  // After the validation the module has the same mode, weights and sums as before.
  void expect_as_before() {
    EXPECT_TRUE(net.is_training());
    EXPECT_EQ(net.metrics().over_ranks(group), (Validator::Metrics{{"train_mean", 0.25}}));
    EXPECT_TRUE(at::equal(net.fc->bias, Net().fc->bias));
  }

  StopSignals signals;  // One that came in another test of this process does not count.
  StopRequest stop;
  int saved = 0;
  Validator validator{model, data, forward, participants, options.step};
};

// The expected mean comes from one batch with all samples.
double loss_of_all(const SampleSource& source, const std::function<void(Net&)>& prepare = {}) {
  Loader loader(std::shared_ptr<const SampleSource>(&source, [](const auto*) {}),
                {.global_batch = source.size(), .shuffle = false});
  Net net;
  if (prepare) prepare(net);
  net.eval();
  return net.loss(*loader.next()).item<double>();
}

void expect_whole(Group& group) {
  Parts parts(group);
  const auto metrics = parts.validate();
  ASSERT_TRUE(metrics);
  EXPECT_NEAR(metrics->at("val_loss"), loss_of_all(*parts.made_up.source), 1e-6);
  EXPECT_EQ(metrics->at("twice"), 2 * metrics->at("val_loss"));
  EXPECT_EQ(metrics->at("samples"), 1.0);
  EXPECT_EQ(metrics->size(), 3U);
  EXPECT_EQ(parts.saved, 0);
  parts.expect_as_before();
}

TEST(Validator, CountsEachSampleOnce) {
  auto group = one_rank();
  expect_whole(group);
}

RANKS_TEST(Validator, CountsEachSampleOfAllRanksOnce, 2) { expect_whole(group); }

TEST(Validator, SeesTheWeightsOfExtensionsAndPutsTheModulesOwnBack) {
  auto group = one_rank();
  Parts parts(group);
  Sevens sevens(parts.net);
  parts.extensions.push_back(&sevens);
  const auto metrics = parts.validate();
  const auto wanted = loss_of_all(*parts.made_up.source, [](Net& net) { Sevens(net).swap(); });
  EXPECT_NEAR(metrics.value().at("val_loss"), wanted, 1e-6);
  parts.expect_as_before();
}

TEST(Validator, GivesNothingAfterAStop) {
  auto group = one_rank();
  Parts parts(group);
  parts.stop.ask("callback: x");
  EXPECT_FALSE(parts.validate());
  EXPECT_EQ(parts.net.validated, 1) << "the first check is after the first batch";
  EXPECT_EQ(parts.stop.stopped_by(), "callback: x");
  EXPECT_EQ(parts.saved, 0);
  parts.expect_as_before();
}

RANKS_TEST(Validator, SavesOnAllRanksAndThenThrowsWhatOneHasThrown, 2) {
  Parts parts(group);
  Sevens sevens(parts.net);
  parts.extensions.push_back(&sevens);
  if (group.rank() == 1) parts.net.fails_at = 2;
  bool was_as_before = false;
  const auto save = [&] {
    parts.expect_as_before();
    was_as_before = true;
  };
  const auto text = message_of(ErrorKind::kRecipe, [&] { parts.validator.validate({}, parts.stop, save); });
  EXPECT_TRUE(was_as_before);
  EXPECT_HAS(text, "the model failed in validation");
  EXPECT_EQ(text.starts_with("rank 1: "), group.rank() == 0) << text;
}

TEST(Validator, TellsTheFailureAndNotThatItCouldNotBeSaved) {
  auto group = one_rank();
  Parts parts(group);
  parts.net.fails_at = 2;
  const auto save = [] { throw Error(ErrorKind::kIo, "the disk is full"); };
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { parts.validator.validate({}, parts.stop, save); }), "no such label");
}

TEST(Validator, TakesTheStatisticsThatAnExtensionLacks) {
  auto group = one_rank();
  Parts parts(group);
  EXPECT_TRUE(parts.validator.refresh_statistics({}, parts.stop)) << "nobody lacks any";
  Sevens sevens(parts.net);
  sevens.wants = true;
  parts.extensions.push_back(&sevens);
  EXPECT_TRUE(parts.validator.refresh_statistics({}, parts.stop));
  // Each of the four batches has six samples, so the plain mean over batches is the mean over samples.
  Loader loader(parts.made_up.source, {.global_batch = 24, .shuffle = false});
  EXPECT_TRUE(at::allclose(sevens.mean, loader.next()->input().mean(0), 1e-5, 1e-6));
  parts.expect_as_before();
}

}  // namespace
}  // namespace lockstep
