// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/classifier.h"

#include <torch/torch.h>

namespace lockstep {

// The network is registered without a name of its own, so that its weights keep the names that other programs know.
Classifier::Classifier(std::shared_ptr<Network> network, OptimizerSettings optimizer, at::ScalarType type)
    : network_(std::move(network)), optimizer_(std::move(optimizer)), type_(type) {
  convert_floating(*network_, type);
  for (const auto& child : network_->named_children()) register_module(child.key(), child.value());
}

at::Tensor Classifier::logits(const Batch& batch) {
  auto input = batch.input();
  const bool is_bytes = input.scalar_type() == at::kByte;
  input = input.to(type_);
  if (is_bytes) input.div_(255);
  return network_->forward(input);
}

at::Tensor Classifier::training_step(const Batch& batch) {
  return at::cross_entropy_loss(logits(batch), batch.target());
}

void Classifier::validation_step(const Batch& batch) {
  const auto scores = logits(batch);
  log("val_loss", at::cross_entropy_loss(scores, batch.target()));
  log("val_accuracy", scores.argmax(1).eq(batch.target()).to(at::kDouble).mean());
}

std::unique_ptr<torch::optim::Optimizer> Classifier::configure_optimizer() {
  return make_optimizer(parameters(), optimizer_);
}

}  // namespace lockstep
