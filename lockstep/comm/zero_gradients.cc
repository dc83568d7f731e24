// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/zero_gradients.h"

#include <ATen/ops/zeros_like.h>

namespace lockstep {

ZeroGradients::ZeroGradients(const std::vector<at::Tensor>& parameters) : parameters_(parameters) {
  for (const auto& each : parameters_) {
    places_.push_back(each.register_hook([](const at::Tensor& gradient) { return at::zeros_like(gradient); }));
  }
}

ZeroGradients::~ZeroGradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].remove_hook(places_[i]);
}

}  // namespace lockstep
