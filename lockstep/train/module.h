// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A network with its loss and optimizer. Derive from Module and give it to Trainer::fit().
///
///     struct Digits : lockstep::Module {
///       at::Tensor training_step(const lockstep::Batch& batch) override {
///         return torch::nn::functional::cross_entropy(net->forward(batch.input().to(at::kFloat)), batch.target());
///       }
///       std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
///         return std::make_unique<torch::optim::Adam>(parameters(), 3e-3);
///       }
///       torch::nn::Linear net = register_module("net", torch::nn::Linear(64, 10));
///     };

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <string>

#include "lockstep/loader/loader.h"
#include "lockstep/train/mean_metrics.h"
#include "lockstep/train/optim/schedule.h"

namespace lockstep {

/// The planned length of a training. An unknown number is 0.
struct TrainingPlan {
  std::int64_t epochs = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t steps = 0;
  std::int64_t batches_per_step = 1;
};

/// A network, its loss, and its optimizer. Derive from it and register layers as in any torch::nn::Module.
class Module : public torch::nn::Module {
 public:
  /// Returns the mean loss over the batch's samples, with its autograd graph. It is not called for a batch without
  /// samples.
  /// Shape: returns [].
  virtual at::Tensor training_step(const Batch& batch) = 0;

  /// Evaluates one batch with log(). It is called without an autograd graph and in eval mode. Before the first step,
  /// the trainer also calls it and on_validation_end() for one batch, and discards the results.
  virtual void validation_step(const Batch& batch);

  /// Returns the network's prediction for each sample of a batch. It is called as validation_step() is.
  /// Shape: returns [samples, …]. Throws: Error(kUsage) unless overridden.
  virtual at::Tensor predict_step(const Batch& batch);

  /// Called around each validation. on_validation_end() returns metrics that are not means over samples, such as F1.
  /// They join the means of log(). Collective: yes, both.
  virtual void on_validation_start() {}
  virtual std::map<std::string, double> on_validation_end(Group&, const std::map<std::string, double>& means);

  /// Is called once before a training, after the weights are set.
  virtual void on_fit_start(const TrainingPlan&) {}

  /// Makes the optimizer. It is called once, after the weights are in place.
  virtual std::unique_ptr<torch::optim::Optimizer> configure_optimizer() = 0;

  /// Returns the schedule of learning rates. Called after configure_optimizer(). Unless overridden, rates are constant.
  virtual ScheduleOptions configure_schedule(const TrainingPlan& plan);

  /// Returns the reason why a device cannot record training_step() once and replay it. Empty if the device can. A step
  /// can be recorded if it reads no elements of a tensor on the host, and if nothing that it takes from the host
  /// differs from batch to batch, apart from `Batch::fields`.
  virtual std::string why_not_recorded() const;

  /// Returns another module of the same kind, for strategy "dp". Its weights do not matter.
  /// Throws: Error(kUsage) unless overridden.
  virtual std::unique_ptr<Module> replica() const;

  /// Returns the means that log() has gathered. The trainer calls it.
  MeanMetrics& metrics() { return metrics_; }

 protected:
  /// Records a mean over the current batch's samples, in training and in validation. The epoch's value weighs every
  /// sample of all ranks equally. Every rank logs the same names. Shape: value [].
  void log(const std::string& name, const at::Tensor& value);
  void log(const std::string& name, double value);

 private:
  MeanMetrics metrics_;
};

}  // namespace lockstep
