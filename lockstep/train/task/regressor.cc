// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/task/regressor.h"

#include <torch/torch.h>

namespace lockstep {

at::Tensor Regressor::training_step(const Batch& batch) {
  if (trains_itself()) return own_training_step(batch, batch.input());
  const auto output = scores(batch.input().to(options().type));
  const auto target = batch.target().to(options().type);
  return options().loss ? options().loss(output, target) : at::mse_loss(output, target);
}

// Losses are added in double, so that the sum does not depend on the batches.
void Regressor::validation_step(const Batch& batch) {
  if (validates_itself()) return own_validation_step(batch, batch.input());
  const auto output = predict_step(batch);
  const auto target = batch.target().to(at::kDouble);
  const auto error = output - target;
  log("val_loss", options().loss ? options().loss(output, target) : error.square().mean());
  log("val_mae", error.abs().mean());
  log_metrics(output, target);
}

at::Tensor Regressor::predict_step(const Batch& batch) {
  return scores(batch.input().to(options().type)).to(at::kDouble);
}

}  // namespace lockstep
