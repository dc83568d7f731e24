// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/trained_model.h"

#include <torch/torch.h>

#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/module_tensors.h"
#include "lockstep/train/guard/finite_gradients.h"

namespace lockstep {
namespace {

// Clips gradients in the same way as torch.nn.utils.clip_grad_norm_ and clip_grad_value_.
void clip(const std::vector<at::Tensor>& gradients, const StepOptions& options) {
  if (gradients.empty()) return;
  const torch::NoGradGuard no_grad;
  if (options.clip_norm > 0) {
    const auto norm = at::stack(at::_foreach_norm(gradients)).norm();
    at::_foreach_mul_(gradients, at::clamp_max(options.clip_norm / (norm + 1e-6), 1.0));
  }
  if (options.clip_value > 0) {
    at::_foreach_clamp_min_(gradients, -options.clip_value);
    at::_foreach_clamp_max_(gradients, options.clip_value);
  }
}

// A tied weight appears twice in a module's list of parameters. If its gradient were clipped twice, it would become too
// small.
std::vector<at::Tensor> trained_weights(const Module& module) {
  std::vector<at::Tensor> out;
  std::unordered_set<const void*> seen;
  for (const auto& each : module.parameters()) {
    if (each.requires_grad() && seen.insert(each.unsafeGetTensorImpl()).second) out.push_back(each);
  }
  return out;
}

}  // namespace

TrainedModel::TrainedModel(Module& module, Group& group, const StepOptions& options, const TrainingPlan& plan)
    : module_(module), group_(group), options_(options) {
  const auto& device = group.device();
  if (!device.is_cpu()) {
    module.to(device.device);
    module.metrics().defer();
  }
  module.on_fit_start(plan);
  optimizer_ = module.configure_optimizer();
  if (!device.is_cpu()) device_update_ = dynamic_cast<DeviceUpdate*>(optimizer_.get());
  scheduler_ = std::make_unique<Scheduler>(module.configure_schedule(plan), *optimizer_);
  weights_ = trained_weights(module);
  if (weights_.empty()) return;
  require_precision(options.precision, weights_[0].device(), device.backend->runtime().kind);
  if (options.precision == Precision::kFp16) scaler_ = std::make_unique<LossScaler>(weights_[0].device());
}

void TrainedModel::connect(DataParallelOptions options) {
  if (scaler_ && options.compression.kind == Compression::kPowerSgd) {
    throw Error(ErrorKind::kRecipe,
                "trainer.compression is powersgd with precision fp16: what it keeps would be spoilt by an overflow",
                "use bf16, or compression fp16");
  }
  parallel_ = std::make_unique<DistributedDataParallel>(module_, group_, std::move(options));
}

void TrainedModel::reconnect() {
  auto options = options_.parallel;
  if (group_.world() > 1) options.layout = parallel_->layout();
  parallel_.reset();
  connect(std::move(options));
  raise(raised_);
}

void TrainedModel::prepare_step(std::int64_t step, std::int64_t epoch) {
  scheduler_->prepare(step, epoch);
  if (device_update_ != nullptr) device_update_->prepare_step();
}

void TrainedModel::raise(const StepSignals& signals) {
  raised_ = signals;
  if (signals.snapshot) parallel_->raise(Signal::kSnapshot);
  if (signals.stop) parallel_->raise(Signal::kStop);
}

void TrainedModel::leave_out_nonfinite(bool waits) {
  if (scaler_ || weights_.empty()) return;
  const bool is_cpu = group_.device().is_cpu();
  watch_ = waits || is_cpu ? Watch::kAtOnce : Watch::kLate;
  if (!is_cpu) found_ = at::zeros({1}, at::TensorOptions(weights_[0].device()).dtype(at::kFloat));
}

bool TrainedModel::was_left_out(bool waits) {
  if (!found_.defined()) return std::exchange(was_refused_, false);
  if (waits || !tells_late()) return found_.item<float>() != 0;
  const bool before = readback_.has_begun() && readback_.wait(group_.watch()).item<float>() != 0;
  readback_.begin(found_);
  return before;
}

// Averaged gradients are the same on every rank, so all leave out the same steps.
bool TrainedModel::is_refused(const std::vector<at::Tensor>& gradients) {
  if (scaler_) return device_update_ == nullptr && !scaler_->unscale(gradients);
  if (watch_ == Watch::kNone) return false;
  if (!found_.defined()) return was_refused_ = !all_finite(gradients);
  find_nonfinite(gradients, found_);
  return watch_ == Watch::kAtOnce && found_.item<float>() != 0;
}

void TrainedModel::apply(const std::vector<at::Tensor>& gradients) {
  if (is_refused(gradients)) return;
  if (device_update_ != nullptr) device_update_->skip_where(scaler_ ? scaler_->overflow_of(gradients) : found_);
  if (options_.clip_norm > 0 || options_.clip_value > 0) clip(gradients, options_);
  optimizer_->step();
}

void TrainedModel::update() {
  wait_for_readers();
  const bool clips = options_.clip_norm > 0 || options_.clip_value > 0;
  const bool looks = scaler_ || clips || watch_ != Watch::kNone;
  apply(looks ? gradients_of(weights_) : std::vector<at::Tensor>{});
  optimizer_->zero_grad();
}

}  // namespace lockstep
