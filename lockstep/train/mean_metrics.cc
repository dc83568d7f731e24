// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/mean_metrics.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

void MeanMetrics::add(const std::string& name, double mean) {
  if (samples_ == 0) return;
  auto& sum = sums_[name];
  sum.total += mean * static_cast<double>(samples_);
  sum.samples += samples_;
}

void MeanMetrics::add(const std::string& name, const at::Tensor& mean) {
  if (mean.is_cpu() && !defers_) return add(name, mean.item<double>());
  if (samples_ == 0) return;
  const at::NoGradGuard no_grad;
  auto& sum = on_device_[name];
  if (!sum.defined()) sum = at::zeros({}, mean.options().dtype(at::kDouble).requires_grad(false));
  sum.add_(mean.detach(), static_cast<double>(samples_));
  sums_[name].samples += samples_;
  on_device_now_.push_back(name);
}

void MeanMetrics::repeat_batch(std::int64_t samples) {
  for (const auto& name : on_device_now_) sums_[name].samples += samples;
}

void MeanMetrics::clear() {
  sums_.clear();
  for (auto& [name, sum] : on_device_) sum.zero_();
}

void MeanMetrics::settle() const {
  for (auto& [name, sum] : on_device_) {
    const auto it = sums_.find(name);
    if (it == sums_.end()) continue;
    it->second.total += sum.item<double>();
    sum.zero_();
  }
}

void MeanMetrics::take(MeanMetrics& other) {
  settle();
  other.settle();
  for (const auto& [name, sum] : other.sums_) {
    auto& own = sums_[name];
    own.total += sum.total;
    own.samples += sum.samples;
  }
  other.clear();
}

const MetricSums& MeanMetrics::sums() const {
  settle();
  return sums_;
}

// Rank 0's part of a batch is never smaller than another rank's. So rank 0 has logged every name that any rank has
// logged, and the names come from rank 0.
MetricSums MeanMetrics::sums_over_ranks(Group& group) const {
  settle();
  std::vector<std::string> names;
  for (const auto& [name, sum] : sums_) names.push_back(name);
  const auto text = group.broadcast_text(joined(names, "\n"));
  const auto shared = text.empty() ? std::vector<std::string>{} : split(text, '\n');
  const auto unknown = std::find_if(names.begin(), names.end(), [&](const auto& name) {
    return std::find(shared.begin(), shared.end(), name) == shared.end();
  });
  const auto strangers = group.all_gather(unknown == names.end() ? 0 : 1);
  if (std::any_of(strangers.begin(), strangers.end(), [](auto each) { return each != 0; })) {
    throw Error(ErrorKind::kUsage,
                unknown == names.end() ? "another rank logged a metric that rank 0 did not"
                                       : "this rank logged '" + *unknown + "', which rank 0 did not",
                "log the same names on every rank");
  }
  auto sums = at::zeros({static_cast<std::int64_t>(shared.size()), 2}, at::kDouble);
  auto* data = sums.data_ptr<double>();
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const auto it = sums_.find(shared[i]);
    if (it == sums_.end()) continue;
    data[2 * i] = it->second.total;
    data[2 * i + 1] = static_cast<double>(it->second.samples);
  }
  if (!shared.empty()) group.all_reduce_sum(sums);
  MetricSums all;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    all[shared[i]] = {data[2 * i], static_cast<std::int64_t>(data[2 * i + 1])};
  }
  return all;
}

std::map<std::string, double> MeanMetrics::over_ranks(Group& group) const {
  std::map<std::string, double> means;
  for (const auto& [name, sum] : sums_over_ranks(group)) {
    if (sum.samples > 0) means[name] = sum.total / static_cast<double>(sum.samples);
  }
  return means;
}

}  // namespace lockstep
