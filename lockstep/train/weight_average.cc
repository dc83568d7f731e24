// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/weight_average.h"

#include <torch/torch.h>

#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/device/dtype.h"
#include "lockstep/train/module.h"

namespace lockstep {
namespace {

constexpr const char* kCount = "count";

}  // namespace

at::Tensor WeightAverage::restored_as(const std::string& name, const at::Tensor& like) const {
  const auto it = restored_.find(name);
  if (it != restored_.end() && it->second.sizes() == like.sizes()) return it->second.to(like.device());
  throw Error(ErrorKind::kData,
              "the snapshot's average of '" + name + "' is " +
                  (it == restored_.end() ? "missing" : shape_text(it->second.sizes())) + ", want " +
                  shape_text(like.sizes()),
              "resume with the recipe that wrote the snapshot, or start anew with --resume none");
}

void WeightAverage::start(Module& module) {
  const torch::NoGradGuard no_grad;
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    names_.push_back(item.key());
    weights_.push_back(item.value());
    averages_.push_back(restored_.empty() ? item.value().detach().clone() : restored_as(item.key(), item.value()));
  }
  for (const auto& item : module.named_buffers()) {
    buffers_.push_back({item.key(), item.value()});
    if (restored_.contains(item.key())) statistics_.push_back(restored_as(item.key(), item.value()));
  }
  if (const auto it = restored_.find(kCount); it != restored_.end()) count_ = it->second.item<std::int64_t>();
  restored_.clear();
}

// The first set of weights is the average itself, as in AveragedModel.
void WeightAverage::take(double share) {
  const torch::NoGradGuard no_grad;
  at::_foreach_lerp_(averages_, weights_, count_ == 0 ? 1.0 : share);
  ++count_;
}

void WeightAverage::after_step(const TrainingState& state) {
  if (options_.decay && state.epoch >= options_.from_epoch) take(1 - *options_.decay);
}

void WeightAverage::after_epoch(const TrainingState& state) {
  if (!options_.decay && state.epoch >= options_.from_epoch) take(1.0 / static_cast<double>(count_ + 1));
}

void WeightAverage::swap() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const auto weight = weights_[i].data();
    weights_[i].set_data(averages_[i]);
    averages_[i] = weight;
  }
}

void WeightAverage::before_validation() {
  if (count_ == 0) return;
  swap();
  for (const auto& each : buffers_) kept_.push_back(each.tensor.clone());
}

void WeightAverage::after_validation() {
  if (count_ == 0) return;
  swap();
  const torch::NoGradGuard no_grad;
  statistics_.clear();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    statistics_.push_back(buffers_[i].tensor.clone());
    buffers_[i].tensor.copy_(kept_[i]);
  }
  kept_.clear();
}

std::vector<SavedTensor> WeightAverage::saved() const {
  std::vector<SavedTensor> out = {{kCount, at::full({}, count_, at::kLong)}};
  for (std::size_t i = 0; i < names_.size(); ++i) out.push_back({names_[i], averages_[i]});
  for (std::size_t i = 0; i < statistics_.size(); ++i) out.push_back({buffers_[i].name, statistics_[i]});
  return out;
}

void WeightAverage::restore(const std::map<std::string, at::Tensor>& tensors) { restored_ = tensors; }

}  // namespace lockstep
