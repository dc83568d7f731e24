// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/trainer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;
using testing::TemporaryFolder;

// Two layers with dropout between them, in double.
struct Net : Module {
  explicit Net(double dropout = 0) : drop(dropout) {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
    to(at::kDouble);
  }
  at::Tensor loss(const Batch& batch) {
    const auto hidden = torch::tanh(fc1(batch.input().to(at::kDouble)));
    return at::cross_entropy_loss(fc2(torch::dropout(hidden, drop, is_training())), batch.target());
  }
  at::Tensor training_step(const Batch& batch) override {
    const auto value = loss(batch);
    log("train_mean", value);
    return value;
  }
  void validation_step(const Batch& batch) override {
    EXPECT_FALSE(is_training());
    EXPECT_FALSE(at::GradMode::is_enabled());
    log("val_loss", loss(batch));
    log("samples", 1.0);
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5, .momentum = 0.9});
  }

  double drop;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
};

struct Data : MadeUpData {
  using MadeUpData::MadeUpData;
  void prepare_data() override { ++prepared; }
  void setup() override { ++set_up; }

  int prepared = 0, set_up = 0;
};

// A listener that records the events. After a given step it asks for a stop, or sends this process a signal.
struct Recorder : Listener {
  std::string name() const override { return "recorder"; }
  Verdict on(const RunStarted& event) override {
    first_epoch = event.first_epoch;
    return note("run", event.steps_per_epoch);
  }
  Verdict on(const EpochStarted& event) override { return note("epoch", event.first_step); }
  Verdict on(const StepEnded& event) override {
    note("step", event.step);
    parts_seconds += event.seconds;
    if (event.loss) losses.push_back(*event.loss);
    if (event.step == signal_after) ::raise(SIGTERM);
    return event.step == stop_after ? Verdict::kStop : Verdict::kContinue;
  }
  Verdict on(const ValidationEnded& event) override {
    metrics = event.metrics;
    parts_seconds += event.seconds;
    return note("validation", event.samples);
  }
  Verdict on(const SnapshotWritten& event) override {
    parts_seconds += event.seconds;
    return note("snapshot", event.step);
  }
  Verdict on(const RunEnded& event) override {
    seconds = event.seconds;
    return note("end " + event.stopped_by, event.step);
  }

  Verdict note(const std::string& what, std::int64_t number) {
    heard.push_back(what + " " + std::to_string(number));
    return Verdict::kContinue;
  }

  std::int64_t stop_after = -1, signal_after = -1, first_epoch = -1;
  std::vector<std::string> heard;
  std::vector<double> losses;
  std::map<std::string, double> metrics;
  double seconds = 0, parts_seconds = 0;
};

FitResult fitted(Net& net, Data& data, Group& group, const TrainerOptions& options, Recorder* recorder = nullptr) {
  Trainer trainer(options);
  if (recorder != nullptr) trainer.add(*recorder);
  return trainer.fit(net, data, group);
}

double largest_difference(Net& a, Net& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    largest = std::max(largest, (a.parameters()[i] - b.parameters()[i]).abs().max().item<double>());
  }
  return largest;
}

// One rank that saves into a folder of its own, with a listener that records the events.
class ARun : public ::testing::Test {
 protected:
  FitResult saved(TrainerOptions options) {
    options.snapshot.folder = folder_.path() / "snapshots";
    return fitted(net, data, group_, options, &recorder);
  }
  Net net;
  Data data{11};
  Recorder recorder;

 private:
  TemporaryFolder folder_;
  Group group_ = one_rank();
};

TEST_F(ARun, CountsNoTimeTwice) {
  saved({.max_epochs = 10, .snapshot = {.every_steps = 1}});
  EXPECT_LE(recorder.parts_seconds, recorder.seconds);
}

TEST_F(ARun, IsToldInOrder) {
  const auto result = saved({.max_epochs = 2, .log_every = 1});
  const std::vector<std::string> wanted = {"run 2",         "epoch 0",    "step 1",          "step 2",
                                           "validation 22", "epoch 0",    "step 3",          "step 4",
                                           "validation 22", "snapshot 4", "end max_epochs 4"};
  // Listeners hear of the first snapshot once it is on disk. Training continues meanwhile.
  const auto first = std::ranges::find(recorder.heard, "snapshot 2");
  ASSERT_NE(first, recorder.heard.end());
  EXPECT_GT(first, std::ranges::find(recorder.heard, "validation 22"));
  recorder.heard.erase(first);
  EXPECT_EQ(recorder.heard, wanted);
  EXPECT_EQ(data.prepared, 1);
  EXPECT_EQ(data.set_up, 1);
  EXPECT_EQ(result.stopped_by, "max_epochs");
  EXPECT_FALSE(result.wants_requeue);
  EXPECT_EQ(result.steps_now, 4);
  EXPECT_EQ(result.state.samples, 44);
  EXPECT_EQ(result.weights_digest, weights_digest(net));
  EXPECT_GT(result.samples_per_second, 0);
  EXPECT_TRUE(result.time_to_first_step_s);
}

TEST(Trainer, LearnsAndValidatesEverySampleOnce) {
  auto group = one_rank();
  Net net;
  Data data(4);
  Recorder recorder;
  const auto result = fitted(net, data, group, {.max_epochs = 30, .log_every = 6}, &recorder);
  EXPECT_LT(recorder.losses.back(), 0.2 * recorder.losses.front());
  EXPECT_EQ(recorder.metrics.at("samples"), 1.0);
  EXPECT_DOUBLE_EQ(recorder.metrics.at("train_mean"), result.state.metrics.at("train_loss"));
  EXPECT_EQ(result.state.metrics.at("val_loss"), recorder.metrics.at("val_loss"));
  Loader all(data.source, {.global_batch = 22, .shuffle = false});
  net.eval();
  EXPECT_NEAR(net.loss(*all.next()).item<double>(), recorder.metrics.at("val_loss"), 1e-12);
  SampleDigest wanted;
  for (std::int64_t epoch = 0; epoch < 30; ++epoch) {
    for (std::int64_t id = 0; id < 22; ++id) wanted.add(epoch, id);
  }
  EXPECT_EQ(result.state.digest.hex(), wanted.hex());
}

TEST(Trainer, AccumulatingTwoBatchesEqualsOneTwiceAsLarge) {
  auto group = one_rank();
  Net large;
  Net small;
  Data by_eight(8);
  Data by_four(4);
  const auto one = fitted(large, by_eight, group, {.max_epochs = 3});
  const auto two = fitted(small, by_four, group, {.max_epochs = 3, .step = {.accumulate = 2}});
  EXPECT_EQ(one.state.step, two.state.step);
  EXPECT_EQ(one.state.digest.hex(), two.state.digest.hex());
  EXPECT_LT(largest_difference(large, small), 1e-12);
  EXPECT_NEAR(one.state.metrics.at("train_loss"), two.state.metrics.at("train_loss"), 1e-12);
}

TEST(Trainer, WithDropoutAResumedRunIsBitEqual) {
  auto group = one_rank();
  Net whole(0.5);
  Data data(4);
  const auto uninterrupted = fitted(whole, data, group, {.max_epochs = 3});
  EXPECT_NE(weights_digest(whole), weights_digest(*std::make_unique<Net>(0.5)));
  for (const std::int64_t stop : {1, 5, 6, 8, 12}) {
    const TemporaryFolder folder;
    Net first(0.5);
    TrainerOptions options{.max_epochs = 3, .max_steps = stop, .snapshot = {.folder = folder.path() / "snapshots"}};
    fitted(first, data, group, options);
    Net second(0.5);
    options.max_steps = 0;
    options.snapshot.resume_from = listed_snapshots(options.snapshot.folder).back().path;
    const auto resumed = fitted(second, data, group, options);
    EXPECT_EQ(resumed.weights_digest, uninterrupted.weights_digest) << "stopped after step " << stop;
    EXPECT_EQ(resumed.state.digest.hex(), uninterrupted.state.digest.hex()) << "stopped after step " << stop;
    EXPECT_EQ(resumed.state.metrics, uninterrupted.state.metrics) << "stopped after step " << stop;
    EXPECT_EQ(resumed.steps_now, 18 - stop);
  }
}

TEST(Trainer, AFinishedRunDoesNoStep) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Net net;
  Data data(8);
  TrainerOptions options{.max_epochs = 2, .snapshot = {.folder = folder.path() / "snapshots"}};
  const auto first = fitted(net, data, group, options);
  options.snapshot.resume_from = listed_snapshots(options.snapshot.folder).back().path;
  Net again;
  const auto second = fitted(again, data, group, options);
  EXPECT_EQ(second.steps_now, 0);
  EXPECT_EQ(second.weights_digest, first.weights_digest);
  EXPECT_EQ(second.stopped_by, "max_epochs");
  EXPECT_FALSE(second.time_to_first_step_s);
}

// An epoch has three steps. The first resume is within the second epoch, and the other at the epoch's end.
TEST(Trainer, TellsTheEpochThatAResumedRunGoesOnIn) {
  auto group = one_rank();
  Data data(8);
  for (const auto& [stop, wanted] : {std::pair(4, 1), std::pair(6, 2)}) {
    const TemporaryFolder folder;
    Net net;
    Recorder recorder;
    TrainerOptions options{.max_epochs = 3, .max_steps = stop, .snapshot = {.folder = folder.path() / "snapshots"}};
    fitted(net, data, group, options, &recorder);
    EXPECT_EQ(recorder.first_epoch, 0);
    options.snapshot.resume_from = listed_snapshots(options.snapshot.folder).back().path;
    options.max_steps = 0;
    fitted(net, data, group, options, &recorder);
    EXPECT_EQ(recorder.first_epoch, wanted) << "stopped after step " << stop;
  }
}

TEST(Trainer, AListenersStopEndsItWithASnapshotAndItsName) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Net net;
  Data data(4);
  Recorder recorder;
  recorder.stop_after = 2;
  const auto result =
      fitted(net, data, group, {.max_epochs = 5, .snapshot = {.folder = folder.path() / "snapshots"}}, &recorder);
  EXPECT_EQ(result.stopped_by, "callback: recorder");
  EXPECT_FALSE(result.wants_requeue);
  EXPECT_LE(result.state.step, 3);
  EXPECT_EQ(listed_snapshots(folder.path() / "snapshots").back().step, result.state.step);
}

TEST(Trainer, RefusesAnOptimizerThatNoSnapshotCanHoldBeforeItTrains) {
  struct Strange : Net {
    std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
      return std::make_unique<torch::optim::RMSprop>(parameters());
    }
  };
  const TemporaryFolder folder;
  auto group = one_rank();
  Strange net;
  Data data(4);
  Recorder recorder;
  EXPECT_HAS(
      message_of(ErrorKind::kUsage,
                 [&] { fitted(net, data, group, {.snapshot = {.folder = folder.path() / "snapshots"}}, &recorder); }),
      "use SGD, Adam or AdamW, or train without snapshots");
  EXPECT_TRUE(recorder.heard.empty());
  fitted(net, data, group, {});
}

TEST(Trainer, RefusesToResumeOnAnotherDataSet) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Net net;
  Data data(4);
  TrainerOptions options{.max_steps = 1, .snapshot = {.folder = folder.path() / "snapshots"}};
  fitted(net, data, group, options);
  options.snapshot.resume_from = listed_snapshots(options.snapshot.folder).back().path;
  Data larger(4, 30);
  const auto text = message_of(ErrorKind::kData, [&] { fitted(net, larger, group, options); });
  EXPECT_HAS(text, "was trained on 22 samples, the data set has 30");
}

// A module whose gradient is in the golden file. One step of SGD with lr 1 shows the gradient.
struct Linear : Module {
  explicit Linear(const nlohmann::json& shapes) {
    for (std::size_t p = 0; p < shapes.size(); ++p) {
      auto gradient = at::empty(shapes[p].get<std::vector<std::int64_t>>(), at::kDouble);
      for (std::int64_t i = 0; i < gradient.numel(); ++i) {
        const auto seed = 20 + static_cast<std::int64_t>(p);
        gradient.data_ptr<double>()[i] = static_cast<double>((i * 37 + seed * 11) % 101 - 50) / 64;
      }
      gradients.push_back(gradient);
      register_parameter("p" + std::to_string(p), at::zeros_like(gradient));
    }
  }
  at::Tensor training_step(const Batch&) override {
    auto total = at::zeros({}, at::kDouble);
    for (std::size_t p = 0; p < gradients.size(); ++p) total = total + (parameters()[p] * gradients[p]).sum();
    return total;
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 1});
  }
  std::vector<at::Tensor> gradients;
};

TEST(Trainer, ClipsGradientsAsPyTorchDoes) {
  const auto golden =
      nlohmann::json::parse(text_of_file(lockstep::testing::source_root() / "tests/golden/optimizers/optimizers.json"));
  auto group = one_rank();
  for (const auto& row : golden.at("clip")) {
    Linear net({golden.at("shapes").at(0), golden.at("shapes").at(1)});
    Data data(22);
    Trainer trainer({.max_steps = 1, .step = {.clip_norm = row.at("max_norm")}, .data = {.validate_every = 0}});
    trainer.fit(net, data, group);
    for (std::size_t p = 0; p < 2; ++p) {
      const auto wanted = row.at("gradients").at(p).get<std::vector<double>>();
      const auto moved = net.parameters()[p].detach().flatten();
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_NEAR(-moved[static_cast<std::int64_t>(i)].item<double>(), wanted[i], 1e-12) << row.at("max_norm");
      }
    }
  }
}

RANKS_TEST(Trainer, OnThreeRanksEqualsOneRank, 3) {
  auto alone = one_rank();
  for (const std::int64_t accumulate : {1, 2}) {
    // The last global batch has two samples, so one rank has none.
    Net whole;
    Net net;
    Data single(5);
    Data shared(5);
    const TrainerOptions options{.max_epochs = 4, .step = {.accumulate = accumulate, .clip_norm = 0.5}};
    const auto one = fitted(whole, single, alone, options);
    const auto three = fitted(net, shared, group, options);
    EXPECT_LT(largest_difference(whole, net), 1e-12);
    EXPECT_EQ(one.state.digest.hex(), three.state.digest.hex());
    for (const auto& [name, value] : one.state.metrics) EXPECT_NEAR(three.state.metrics.at(name), value, 1e-12) << name;
    EXPECT_EQ(shared.prepared, group.is_main() ? 1 : 0);
    EXPECT_EQ(shared.set_up, 1);
  }
}

RANKS_TEST(Trainer, ASignalToOneRankStopsAllAfterTheSameStep, 3) {
  Net net;
  Data data(6);
  Recorder recorder;
  if (group.rank() == 1) recorder.signal_after = 3;
  const auto result = fitted(net, data, group, {.max_epochs = 1000}, &recorder);
  EXPECT_EQ(result.stopped_by, "signal");
  EXPECT_TRUE(result.wants_requeue);
  EXPECT_EQ(group.all_gather(result.state.step), (std::vector<std::int64_t>(3, result.state.step)));
  EXPECT_LE(result.state.step, 5);
}

}  // namespace
}  // namespace lockstep
