// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <string>

#include "lockstep/loader/loader.h"
#include "lockstep/train/mean_metrics.h"
#include "lockstep/train/optim/schedule.h"

namespace lockstep {

/// What a training will come to if nothing stops it; 0 where that is unknown.
struct TrainingPlan {
  std::int64_t epochs = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t steps = 0;
};

/// What is trained: a network, its loss, and its optimizer. Derive from it, register layers as in any
/// torch::nn::Module.
class Module : public torch::nn::Module {
 public:
  /// The mean loss over the batch's samples, with its graph. Not called for a batch without samples.
  /// Shape: returns [].
  virtual at::Tensor training_step(const Batch& batch) = 0;

  /// Evaluates one batch with log(). Called without a graph and in eval mode.
  virtual void validation_step(const Batch& batch);

  /// What the network makes of each sample of a batch, row by row; called as validation_step() is.
  /// Shape: returns [samples, …]. Throws: Error(kUsage) unless overridden.
  virtual at::Tensor predict_step(const Batch& batch);

  /// Around each validation. What the second returns joins the means of log(): what is no mean over samples, such as
  /// F1. Collective: yes, both.
  virtual void on_validation_start() {}
  virtual std::map<std::string, double> on_validation_end(Group&, const std::map<std::string, double>& means);

  /// Called once, after the weights are in place.
  virtual std::unique_ptr<torch::optim::Optimizer> configure_optimizer() = 0;

  /// How learning rates move; called after configure_optimizer(). Unless overridden they stay.
  virtual ScheduleOptions configure_schedule(const TrainingPlan& plan);

  /// Why training_step() on a device cannot be recorded once and replayed; empty where it can: it then asks the host
  /// for nothing that differs from batch to batch, `Batch::fields` aside, and reads no tensor's numbers.
  virtual std::string why_not_recorded() const;

  /// Another one of the same kind with any weights, for strategy "dp".
  /// Throws: Error(kUsage) unless overridden.
  virtual std::unique_ptr<Module> replica() const;

  /// What log() has gathered. For the trainer.
  MeanMetrics& metrics() { return metrics_; }

 protected:
  /// Records a mean over the current batch's samples, in training and in validation; the epoch's value weighs every
  /// sample of all ranks equally. `value` is [] or a number. Every rank logs the same names.
  void log(const std::string& name, const at::Tensor& value);
  void log(const std::string& name, double value);

 private:
  MeanMetrics metrics_;
};

}  // namespace lockstep
