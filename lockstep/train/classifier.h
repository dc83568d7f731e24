// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/models/network.h"
#include "lockstep/train/module.h"
#include "lockstep/train/optimizer.h"

namespace lockstep {

/// A network that tells classes apart, trained by cross entropy: what the built-in recipes train. Bytes are scaled to
/// [0, 1].
class Classifier : public Module {
 public:
  /// `type` is of weights and arithmetic.
  Classifier(std::shared_ptr<Network> network, OptimizerSettings optimizer, at::ScalarType type = at::kFloat);

  at::Tensor training_step(const Batch& batch) override;
  /// Logs "val_loss" and "val_accuracy".
  void validation_step(const Batch& batch) override;
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override;

 private:
  at::Tensor logits(const Batch& batch);

  std::shared_ptr<Network> network_;
  OptimizerSettings optimizer_;
  at::ScalarType type_;
};

}  // namespace lockstep
