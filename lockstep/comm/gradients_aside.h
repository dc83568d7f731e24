// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace lockstep {

/// While it lives, the parameters have no gradients.
///
/// A reducer that is made in the middle of a step, for a static graph, would make those of its earlier batches views of
/// its buckets. A view it divides by the number of ranks, any other gradient it multiplies by the inverse
/// (c10d::Reducer::mark_variable_ready_dense): with three ranks a resumed run's first step would differ in the last
/// bit.
class GradientsAside {
 public:
  explicit GradientsAside(const std::vector<at::Tensor>& parameters) : parameters_(parameters) {
    for (const auto& each : parameters_) gradients_.push_back(std::exchange(each.mutable_grad(), {}));
  }
  ~GradientsAside() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients_[i];
  }
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;

 private:
  const std::vector<at::Tensor>& parameters_;
  std::vector<at::Tensor> gradients_;
};

}  // namespace lockstep
