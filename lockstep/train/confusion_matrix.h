// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Counts of predicted classes for each true class, and scores by class.
///
///     lockstep::ConfusionMatrix confusion(10);
///     confusion.add(net->forward(input).argmax(1), target);
///     std::cout << "F1 " << lockstep::f1_macro(confusion.over_ranks(world)) << "\n";

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep {

/// Counts how often samples of each class were predicted as each class. Counts are whole numbers, so the parts of all
/// ranks add up exactly.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);

  /// Shape: predicted [N], target [N], both I64 in [0, classes).
  void add(const at::Tensor& predicted, const at::Tensor& target);
  void clear();

  /// Returns the matrix over the samples of all ranks.
  /// Shape: returns [true class, predicted class], I64.
  /// Collective: yes. Blocks: until done.
  at::Tensor over_ranks(Group& group) const;

 private:
  at::Tensor counts_;
};

/// Return recall and F1 by class, as scikit-learn does. A class that is neither among the samples nor predicted has 0.
std::vector<double> recall_by_class(const at::Tensor& counts);
std::vector<double> f1_by_class(const at::Tensor& counts);
/// Returns the unweighted mean of f1_by_class() over the classes that are among the samples or predicted.
double f1_macro(const at::Tensor& counts);

}  // namespace lockstep
