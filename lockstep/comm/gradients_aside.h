// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace lockstep {

/// While an object of this class lives, the parameters have no gradients.
///
/// Sets gradients aside while a reducer is made in the middle of a step, for a static graph. The reducer would make the
/// gradients of earlier batches views of its buckets. It divides a view by the number of ranks, but multiplies any
/// other gradient by the inverse (c10d::Reducer::mark_variable_ready_dense). With three ranks a resumed run's first
/// step would differ in the last bit.
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
