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
constexpr const char* kKind = "kind";
constexpr const char* kLacksStatistics = "lacks_statistics";

std::string kind_name(bool is_ema) { return is_ema ? "ema" : "swa"; }

}  // namespace

at::Tensor WeightAverage::restored_as(const std::string& name, const at::Tensor& like) const {
  const auto it = restored_.find(name);
  if (it != restored_.end() && it->second.sizes() == like.sizes()) return it->second.to(like.device());
  throw Error(ErrorKind::kData,
              "the snapshot's average of '" + name + "' is " +
                  (it == restored_.end() ? "missing" : shape_text(it->second.sizes())) + ", want " +
                  shape_text(like.sizes()),
              "resume with the recipe that wrote the snapshot, or start from scratch with --resume none");
}

// Throws if the snapshot's averages are of the other kind. Older snapshots do not have the number that tells the kind.
void WeightAverage::require_same_kind() const {
  const auto it = restored_.find(kKind);
  if (it == restored_.end()) return;
  const bool was_ema = it->second.item<std::int64_t>() != 0;
  if (was_ema == options_.decay.has_value()) return;
  throw Error(ErrorKind::kRecipe,
              "the snapshot holds averages of kind " + kind_name(was_ema) + ", want " + kind_name(!was_ema),
              "resume with the same kind of average, or start from scratch with --resume none");
}

void WeightAverage::clear() {
  names_.clear();
  weights_.clear();
  averages_.clear();
  buffers_.clear();
  statistics_.clear();
  kept_.clear();
  count_ = 0;
}

void WeightAverage::start(Module& module) {
  const torch::NoGradGuard no_grad;
  clear();
  require_same_kind();
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    names_.push_back(item.key());
    weights_.push_back(item.value());
    averages_.push_back(restored_.empty() ? item.value().detach().clone() : restored_as(item.key(), item.value()));
  }
  for (const auto& item : module.named_buffers()) buffers_.push_back({item.key(), item.value()});
  if (const auto it = restored_.find(kCount); it != restored_.end()) count_ = it->second.item<std::int64_t>();
  const bool has_statistics =
      !buffers_.empty() && restored_.contains(buffers_.front().name) && !restored_.contains(kLacksStatistics);
  if (has_statistics && !options_.decay) {
    for (const auto& each : buffers_) statistics_.push_back(restored_as(each.name, each.tensor));
  }
  restored_.clear();
}

// Adds a set of weights to the average. The first set becomes the average unchanged, as in PyTorch's AveragedModel.
void WeightAverage::take(double share) {
  const torch::NoGradGuard no_grad;
  at::_foreach_lerp_(averages_, weights_, count_ == 0 ? 1.0 : share);
  ++count_;
  statistics_.clear();
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
  const torch::NoGradGuard no_grad;
  swap();
  for (const auto& each : buffers_) kept_.push_back(each.tensor.clone());
  for (std::size_t i = 0; i < statistics_.size(); ++i) buffers_[i].tensor.copy_(statistics_[i]);
}

void WeightAverage::after_validation() {
  if (count_ == 0) return;
  const torch::NoGradGuard no_grad;
  swap();
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].tensor.copy_(kept_[i]);
  kept_.clear();
}

bool WeightAverage::wants_fresh_statistics() const {
  return count_ > 0 && !options_.decay && statistics_.size() != buffers_.size();
}

void WeightAverage::keep_statistics() {
  const torch::NoGradGuard no_grad;
  statistics_.clear();
  for (const auto& each : buffers_) statistics_.push_back(each.tensor.clone());
}

std::vector<SavedTensor> WeightAverage::saved() const {
  std::vector<SavedTensor> out = {{kCount, at::full({}, count_, at::kLong)},
                                  {kKind, at::full({}, options_.decay ? 1 : 0, at::kLong)}};
  if (wants_fresh_statistics()) out.push_back({kLacksStatistics, at::ones({}, at::kLong)});
  for (std::size_t i = 0; i < names_.size(); ++i) out.push_back({names_[i], averages_[i]});
  for (std::size_t i = 0; i < statistics_.size(); ++i) out.push_back({buffers_[i].name, statistics_[i]});
  return out;
}

std::map<std::string, at::Tensor> WeightAverage::weights() const {
  if (count_ == 0) {
    throw Error(ErrorKind::kUsage, "no weights have been averaged yet",
                "read them after Trainer::fit(), and let it train to epoch " + std::to_string(options_.from_epoch) +
                    " at least, where averaging begins");
  }
  if (wants_fresh_statistics()) {
    throw Error(ErrorKind::kUsage, "the averages lack their BatchNorm statistics: a signal stopped the training first",
                "resume the training, or use the last weights, which the module holds");
  }
  const torch::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> out;
  for (std::size_t i = 0; i < names_.size(); ++i) out.emplace(names_[i], averages_[i].detach().clone());
  for (std::size_t i = 0; i < statistics_.size(); ++i) out.emplace(buffers_[i].name, statistics_[i].clone());
  return out;
}

void WeightAverage::copy_to(torch::nn::Module& module) const {
  const torch::NoGradGuard no_grad;
  auto parameters = module.named_parameters();
  auto buffers = module.named_buffers();
  const auto averages = weights();
  const auto place_of = [&](const std::string& name, const at::Tensor& average) {
    auto* place = parameters.find(name);
    if (place == nullptr) place = buffers.find(name);
    if (place != nullptr && place->sizes() == average.sizes()) return *place;
    throw Error(ErrorKind::kUsage,
                "the module's '" + name + "' is " + (place == nullptr ? "missing" : shape_text(place->sizes())) +
                    ", want " + shape_text(average.sizes()),
                "pass the module that was trained, or another of the same kind");
  };
  for (const auto& [name, average] : averages) place_of(name, average);
  for (const auto& [name, average] : averages) place_of(name, average).copy_(average);
}

void WeightAverage::restore(const std::map<std::string, at::Tensor>& tensors) { restored_ = tensors; }

}  // namespace lockstep
