// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The training steps that a network defines by itself. NetworkTask calls them in place of its own steps.
///
///     struct Net : lockstep::Network, lockstep::WithOwnSteps {
///       lockstep::OwnSteps* own_steps() override { return steps.get(); }
///       std::unique_ptr<lockstep::OwnSteps> steps;
///     };

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/train/module.h"
#include "lockstep/train/optim/optimizer.h"

namespace lockstep {

/// The steps, optimizer and schedule that a network brings with it, as a LightningModule of Python's does.
class OwnSteps {
 public:
  /// The fields of a batch. The input is as the network gets it.
  struct Data {
    std::vector<at::Tensor> fields{};
    std::int64_t epoch = 0;
    std::int64_t index = 0;  ///< Index of the batch within the epoch.
  };

  struct Result {
    at::Tensor loss{};                                         ///< Undefined if a validation step returns no loss.
    std::vector<std::pair<std::string, at::Tensor>> logged{};  ///< Means over the batch's samples. Shape: [].
  };

  struct Optimizer {
    std::vector<OptimizerGroup> groups{};
    ScheduleOptions schedule{};
  };

  virtual ~OwnSteps() = default;

  /// True if the network has the method of this name.
  virtual bool has_training_step() const = 0;
  virtual bool has_validation_step() const = 0;
  virtual bool has_optimizer() const = 0;

  /// Returns the loss with its graph. LOCKSTEP_ASSERT: has_training_step().
  virtual Result training_step(const Data& data) = 0;
  /// LOCKSTEP_ASSERT: has_validation_step().
  virtual Result validation_step(const Data& data) = 0;
  /// Is called before a training, after the weights are set.
  virtual void begin(const TrainingPlan& plan) = 0;
  /// LOCKSTEP_ASSERT: has_optimizer().
  ///
  /// Throws: Error(kRecipe) for an optimizer or a schedule that has no counterpart here.
  virtual Optimizer optimizer() = 0;
};

/// The interface of networks that may have steps of their own.
class WithOwnSteps {
 public:
  virtual ~WithOwnSteps() = default;
  /// Returns the network's own steps, or null if it has none.
  virtual OwnSteps* own_steps() = 0;
};

}  // namespace lockstep
