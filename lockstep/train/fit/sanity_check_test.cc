// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/sanity_check.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/models/batch_norm.h"
#include "lockstep/observe/early_stopping.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/connected_parts.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;
using testing::TemporaryFolder;

// A model that draws random numbers and changes buffers in validation, as no model should. It counts how often it was
// called.
struct Net : Module {
  Net() {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    norm = register_module("norm", std::make_shared<BatchNorm>(8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
    calls = register_buffer("calls", at::zeros({}, at::kLong));
  }
  at::Tensor loss(const Batch& batch) {
    const auto hidden = torch::dropout(fc1(batch.input()), 0.3, /*train=*/true);
    return at::cross_entropy_loss(fc2(torch::tanh(norm->forward(hidden))), batch.target());
  }
  at::Tensor training_step(const Batch& batch) override {
    ++trained;
    const auto value = loss(batch);
    log("train_mean", value);
    return value;
  }
  void validation_step(const Batch& batch) override {
    ++validated;
    calls.add_(1);
    if (fails) throw std::runtime_error("no such shape");
    log("val_loss", loss(batch));
  }
  std::map<std::string, double> on_validation_end(Group&, const std::map<std::string, double>&) override {
    return {{"val_f1", 1}};
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5, .momentum = 0.9});
  }
  ScheduleOptions configure_schedule(const TrainingPlan&) override {
    if (plateau_monitor.empty()) return {};
    return {.schedule = PlateauSchedule{.monitor = plateau_monitor}};
  }

  int trained = 0, validated = 0;
  bool fails = false;
  std::string plateau_monitor;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
  std::shared_ptr<BatchNorm> norm;
  at::Tensor calls;
};

struct Parts : testing::ConnectedParts<Net> {
  explicit Parts(Group& group_of_ranks) : ConnectedParts(group_of_ranks, MadeUpData(4)) {}
  void check(const std::vector<Monitor>& monitors) { SanityCheck(model, data, forward, options.step).run(monitors); }
};

void expect_no_trace(const std::string& monitor, int trained) {
  auto group = one_rank();
  Parts parts(group);
  auto& net = parts.net;
  torch::manual_seed(3);
  net.metrics().begin_batch(7);
  net.metrics().add("train_mean", 2.0);
  const auto digest = weights_digest(net);
  const auto mean = net.norm->named_buffers()["running_mean"].clone();
  const auto generator = at::Generator(at::detail::getDefaultCPUGenerator()).get_state();
  parts.check({{"early_stopping", monitor}});
  EXPECT_EQ(net.validated, 1);
  EXPECT_EQ(net.trained, trained);
  EXPECT_TRUE(net.is_training());
  EXPECT_EQ(net.calls.item<std::int64_t>(), 0);
  EXPECT_TRUE(at::equal(net.norm->named_buffers()["running_mean"], mean));
  EXPECT_TRUE(at::equal(at::Generator(at::detail::getDefaultCPUGenerator()).get_state(), generator));
  EXPECT_EQ(weights_digest(net), digest);
  EXPECT_EQ(net.metrics().over_ranks(group), (std::map<std::string, double>{{"train_mean", 2.0}}));
}

TEST(SanityCheck, ValidatesOneBatchAndLeavesNoTrace) { expect_no_trace("val_loss", 0); }

TEST(SanityCheck, TrainsOnABatchWithoutATraceIfValidationDoesNotGiveTheMetric) { expect_no_trace("train_mean", 1); }

TEST(SanityCheck, LeavesTheLoadersWhereTheyWere) {
  auto group = one_rank();
  Parts parts(group);
  auto& loader = parts.data.train();
  auto& validation = *parts.data.validation();
  loader.next();
  validation.next();
  parts.check({{"early_stopping", "train_mean"}});
  EXPECT_EQ(loader.next()->index, 1);
  EXPECT_EQ(validation.next()->index, 1);
}

FitResult fitted(Net& net, Group& group, const TrainerOptions& options, Listener* listener = nullptr) {
  MadeUpData data(4, 24);
  Trainer trainer(options);
  if (listener != nullptr) trainer.add(*listener);
  return trainer.fit(net, data, group);
}

RANKS_TEST(SanityCheck, ChangesNoBitOfATraining, 2) {
  Net with;
  Net without;
  const auto found = fitted(with, group, {.max_epochs = 2});
  const auto wanted = fitted(without, group, {.max_epochs = 2, .guard = {.sanity_check = false}});
  EXPECT_EQ(with.validated, without.validated + 1);
  EXPECT_EQ(found.weights_digest, wanted.weights_digest);
  EXPECT_EQ(found.state.metrics, wanted.state.metrics);
  EXPECT_EQ(found.state.digest.hex(), wanted.state.digest.hex());
}

RANKS_TEST(SanityCheck, AValidationThatFailsOnOneRankEndsTheRunOnAllBeforeItsFirstStep, 2) {
  Net net;
  net.fails = group.rank() == 1;
  const auto text = message_of(ErrorKind::kRecipe, [&] { fitted(net, group, {}); });
  EXPECT_HAS(text, "the model failed in validation");
  EXPECT_HAS(text, "no such shape");
  EXPECT_EQ(text.starts_with("rank 1: "), group.rank() == 0) << text;
  EXPECT_EQ(net.trained, 0);
}

RANKS_TEST(SanityCheck, RefusesAnUnknownMetricThatOneRankAloneWaitsFor, 2) {
  Net net;
  EarlyStopping stopping({.monitor = "val_los"});
  const auto text = message_of(ErrorKind::kRecipe,
                               [&] { fitted(net, group, {.max_epochs = 3}, group.is_main() ? &stopping : nullptr); });
  EXPECT_HAS(text,
             "early_stopping waits for 'val_los', and this training gives train_loss, train_mean, val_f1, val_loss");
  EXPECT_HAS(text, "name one of them");
  EXPECT_EQ(net.trained, 1);
}

TEST(SanityCheck, RefusesABestSnapshotOfAnUnknownMetric) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Net net;
  const TrainerOptions options{.snapshot = {.folder = folder.path() / "snapshots", .monitor = "val_acc"}};
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { fitted(net, group, options); }),
             "snapshot.monitor waits for 'val_acc', and this training gives");
}

TEST(SanityCheck, RefusesAPlateauOfValidationWithoutOne) {
  auto group = one_rank();
  Net net;
  net.plateau_monitor = "val_loss";
  const TrainerOptions options{.max_epochs = 3, .data = {.validate_every = 0}};
  const auto text = message_of(ErrorKind::kRecipe, [&] { fitted(net, group, options); });
  EXPECT_HAS(text, "plateau waits for 'val_loss', and this training gives train_loss, train_mean");
  EXPECT_HAS(text, "let it validate: data.split makes a validation set, and trainer.validate_every");
  Net other;
  other.plateau_monitor = "train_loss";
  EXPECT_EQ(fitted(other, group, options).state.epoch, 3);
}

}  // namespace
}  // namespace lockstep
