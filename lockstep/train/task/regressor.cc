// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/task/regressor.h"

#include <torch/torch.h>

namespace lockstep {

at::Tensor Regressor::training_step(const Batch& batch) {
  return at::mse_loss(scores(batch.input().to(options().type)), batch.target().to(options().type));
}

// In double, so that samples add up to the same whatever batches they come in.
void Regressor::validation_step(const Batch& batch) {
  const auto error = predict_step(batch) - batch.target().to(at::kDouble);
  log("val_loss", error.square().mean());
  log("val_mae", error.abs().mean());
}

at::Tensor Regressor::predict_step(const Batch& batch) {
  return scores(batch.input().to(options().type)).to(at::kDouble);
}

}  // namespace lockstep
