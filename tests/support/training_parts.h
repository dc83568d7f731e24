// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>

#include "lockstep/train/fit/batch_feed.h"
#include "lockstep/train/fit/step_runner.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/made_up_data.h"

namespace lockstep::testing {

/// A small network for MadeUpData, with dropout. It counts the steps that the host makes.
struct SmallNet : Module {
  explicit SmallNet(OptimizerSettings optimizer_ = {.name = "sgd", .lr = 0.05, .momentum = 0.9})
      : optimizer(std::move(optimizer_)) {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
  }
  at::Tensor training_step(const Batch& batch) override {
    ++steps;
    const auto hidden = torch::dropout(torch::tanh(fc1(batch.input())), 0.25, is_training());
    const auto loss = at::cross_entropy_loss(fc2(hidden), batch.target());
    log("train_mean", loss);
    return loss;
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), optimizer);
  }
  std::string why_not_recorded() const override { return {}; }

  OptimizerSettings optimizer;
  int steps = 0;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
};

/// The parts that make the steps of a training, combined as in FitLoop.
struct TrainingParts {
  TrainingParts(Module& module, Group& group, TrainerOptions options_ = {}, MadeUpData made_up_ = MadeUpData(4))
      : options(std::move(options_)),
        made_up(std::move(made_up_)),
        data(made_up, options, group),
        model(module, group, options.step, training_plan(options, data)),
        forward(module, group, options, data),
        losses(group),
        feed(data, options.step.accumulate, group.device()) {}

  /// Connects the model, which is needed before the first step. A SnapshotKeeper connects it by itself.
  void connect() { model.connect(options.step.parallel); }
  StepRunner& step_runner() {
    if (!steps) steps = std::make_unique<StepRunner>(model, forward, losses, options.step);
    return *steps;
  }
  /// Makes one step from the present state by calling `make` with batches and position.
  template <typename Make>
  void step(TrainingState& state, Make&& make) {
    feed.seek(state.epoch, state.place);
    const auto batches = feed.next(state.place);
    model.raise({});
    model.prepare_step(state.step, state.epoch);
    make(batches, StepPlace{.step = state.step, .epoch = state.epoch});
    ++state.step;
    state.place += batches.global_samples;
    state.samples += batches.global_samples;
    if (!data.is_epoch_over(state.place)) return;
    ++state.epoch;
    state.place = 0;
  }

  TrainerOptions options;
  MadeUpData made_up;
  TrainingData data;
  TrainedModel model;
  ForwardPass forward;
  LossCounter losses;
  BatchFeed feed;
  std::unique_ptr<StepRunner> steps;
};

}  // namespace lockstep::testing
