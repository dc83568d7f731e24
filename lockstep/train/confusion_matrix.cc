// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/confusion_matrix.h"

#include <torch/torch.h>

#include <numeric>

namespace lockstep {
namespace {

struct Counts {
  std::vector<double> hits, there, predicted;
};

Counts counts_of(const at::Tensor& matrix) {
  const auto values = [](const at::Tensor& tensor) {
    const auto wide = tensor.to(at::kCPU, at::kDouble).contiguous();
    return std::vector<double>(wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel());
  };
  return {values(matrix.diagonal()), values(matrix.sum(1)), values(matrix.sum(0))};
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : counts_(at::zeros({classes, classes}, at::kLong)) {}

void ConfusionMatrix::add(const at::Tensor& predicted, const at::Tensor& target) {
  const auto classes = counts_.size(0);
  const auto cells = (target * classes + predicted).flatten();
  if (cells.is_cpu()) {
    counts_ += at::bincount(cells, {}, classes * classes).view({classes, classes});
    return;
  }
  // On a device, bincount() would wait until it knows the largest number. scatter_add_() does not wait.
  if (counts_.device() != cells.device()) counts_ = counts_.to(cells.device());
  counts_.view({-1}).scatter_add_(0, cells, at::ones_like(cells));
}

void ConfusionMatrix::clear() { counts_.zero_(); }

at::Tensor ConfusionMatrix::over_ranks(Group& group) const {
  auto all = counts_.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  group.all_reduce_sum(all);
  return all;
}

std::vector<double> recall_by_class(const at::Tensor& counts) {
  const auto of = counts_of(counts);
  std::vector<double> out;
  for (std::size_t i = 0; i < of.hits.size(); ++i) out.push_back(of.there[i] > 0 ? of.hits[i] / of.there[i] : 0);
  return out;
}

std::vector<double> f1_by_class(const at::Tensor& counts) {
  const auto of = counts_of(counts);
  std::vector<double> out;
  for (std::size_t i = 0; i < of.hits.size(); ++i) {
    const double both = of.there[i] + of.predicted[i];
    out.push_back(both > 0 ? 2 * of.hits[i] / both : 0);
  }
  return out;
}

double f1_macro(const at::Tensor& counts) {
  const auto of = counts_of(counts);
  const auto each = f1_by_class(counts);
  double present = 0;
  for (std::size_t i = 0; i < each.size(); ++i) present += of.there[i] + of.predicted[i] > 0 ? 1 : 0;
  return present > 0 ? std::accumulate(each.begin(), each.end(), 0.0) / present : 0;
}

}  // namespace lockstep
