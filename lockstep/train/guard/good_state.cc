// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/guard/good_state.h"

#include <torch/torch.h>

namespace lockstep {

GoodState::GoodState(Module& module, torch::optim::Optimizer& optimizer, DeviceUpdate* update,
                     const std::vector<Extension*>& extensions)
    : module_(module), optimizer_(optimizer), update_(update), extensions_(extensions) {
  content_.state.step = -1;
}

void GoodState::keep(std::int64_t step) {
  if (content_.state.step == step) return;
  const torch::NoGradGuard no_grad;
  if (update_ != nullptr) update_->settle();
  TrainingState state;
  state.step = step;
  content_ = content_of(module_, optimizer_, std::move(state));
  of_extensions_.clear();
  for (const auto* extension : extensions_) {
    auto& copies = of_extensions_.emplace_back();
    for (const auto& each : extension->saved()) copies.emplace(each.name, each.tensor.detach().clone());
  }
}

void GoodState::put_back(std::int64_t step) {
  const torch::NoGradGuard no_grad;
  if (update_ != nullptr) update_->forget_counts();
  restore_content(content_, module_, optimizer_);
  for (std::size_t i = 0; i < extensions_.size(); ++i) {
    // An extension may go on with the very tensors that it is handed.
    std::map<std::string, at::Tensor> copies;
    for (const auto& [name, tensor] : of_extensions_[i]) copies.emplace(name, tensor.clone());
    if (copies.empty()) continue;
    extensions_[i]->restore(copies);
    extensions_[i]->start(module_);
  }
  content_.state.step = step;
}

}  // namespace lockstep
