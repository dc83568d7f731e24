// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep {

/// How often samples of each class were taken for each class: whole numbers, so that ranks' parts add up exactly.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);

  /// Shape: predicted [N], target [N], both I64 in [0, classes).
  void add(const at::Tensor& predicted, const at::Tensor& target);
  void clear();

  /// The matrix of all ranks' samples: [class, taken for], I64.
  /// Collective: yes. Blocks: until done.
  at::Tensor over_ranks(Group& group) const;

 private:
  at::Tensor counts_;
};

/// What a confusion matrix comes to, class by class, as scikit-learn has it: a class that was neither there nor
/// predicted counts 0.
std::vector<double> recall_by_class(const at::Tensor& counts);
std::vector<double> f1_by_class(const at::Tensor& counts);
/// The plain mean of f1_by_class over the classes that were there or predicted.
double f1_macro(const at::Tensor& counts);

}  // namespace lockstep
