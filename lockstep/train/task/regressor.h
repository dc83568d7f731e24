// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "lockstep/train/task/network_task.h"

namespace lockstep {

/// A network that predicts a number, trained by the mean squared error, for tables with data.regression. Its input is
/// numbers, its target F32 [N, 1].
class Regressor : public NetworkTask {
 public:
  explicit Regressor(std::shared_ptr<Network> network, TaskOptions options = {})
      : NetworkTask(std::move(network), std::move(options)) {}

  at::Tensor training_step(const Batch& batch) override;
  /// Logs "val_loss", and "val_mae", the mean of the absolute errors.
  void validation_step(const Batch& batch) override;
  /// Shape: [N, 1].
  at::Tensor predict_step(const Batch& batch) override;
  std::unique_ptr<Module> replica() const override { return std::make_unique<Regressor>(another_network(), options()); }
};

}  // namespace lockstep
