// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/task/network_task.h"

#include <torch/torch.h>

namespace lockstep {
namespace {

constexpr const char* kValidationLoss = "val_loss";

}  // namespace

NetworkTask::NetworkTask(std::shared_ptr<Network> network, TaskOptions options)
    : network_(std::move(network)), options_(std::move(options)) {
  convert_floating(*network_, options_.type);
  adopt(*this, *network_);
  if (auto* with = dynamic_cast<WithOwnSteps*>(network_.get())) own_ = with->own_steps();
}

void NetworkTask::train(bool on) {
  Module::train(on);
  network_->train(on);
}

void NetworkTask::on_fit_start(const TrainingPlan& plan) {
  if (own_ == nullptr) return;
  own_->begin(plan);
  own_optimizer_.reset();
}

const OwnSteps::Optimizer& NetworkTask::own_optimizer() {
  if (!own_optimizer_) own_optimizer_ = own_->optimizer();
  return *own_optimizer_;
}

std::unique_ptr<torch::optim::Optimizer> NetworkTask::configure_optimizer() {
  if (own_ != nullptr && own_->has_optimizer()) return make_optimizer(own_optimizer().groups);
  return make_optimizer(*this, options_.optimizer, options_.groups);
}

ScheduleOptions NetworkTask::configure_schedule(const TrainingPlan& plan) {
  if (own_ != nullptr && own_->has_optimizer()) return own_optimizer().schedule;
  return options_.schedule ? options_.schedule(plan) : ScheduleOptions{};
}

std::string NetworkTask::why_not_recorded() const {
  if (!options_.is_recordable) {
    if (auto reason = network_->why_not_recorded(); !reason.empty()) return reason;
  }
  if (options_.loss) return "the loss is not the task's own";
  if (options_.mixing.mixup_alpha > 0 || options_.mixing.cutmix_alpha > 0) {
    return "the host draws how mixup and cutmix mix each batch";
  }
  return {};
}

OwnSteps::Data NetworkTask::own_data(const Batch& batch, at::Tensor input) const {
  OwnSteps::Data data{.fields = batch.fields, .epoch = batch.epoch, .index = batch.index};
  data.fields.front() = std::move(input);
  for (auto& each : data.fields) {
    if (each.is_floating_point()) each = each.to(options_.type);
  }
  return data;
}

at::Tensor NetworkTask::own_training_step(const Batch& batch, at::Tensor input) {
  const auto result = own_->training_step(own_data(batch, std::move(input)));
  for (const auto& [name, value] : result.logged) log(name, value);
  return result.loss;
}

void NetworkTask::own_validation_step(const Batch& batch, at::Tensor input) {
  const auto result = own_->validation_step(own_data(batch, std::move(input)));
  bool has_loss = false;
  for (const auto& [name, value] : result.logged) {
    log(name, value);
    has_loss = has_loss || name == kValidationLoss;
  }
  if (result.loss.defined() && !has_loss) log(kValidationLoss, result.loss.to(at::kDouble));
}

void NetworkTask::log_metrics(const at::Tensor& output, const at::Tensor& target) {
  for (const auto& [name, metric] : options_.metrics) log(name, metric(output, target).to(at::kDouble).mean());
}

void NetworkTask::use_channels_last() {
  is_channels_last_ = true;
  lay_channels_last(*this);
}

std::shared_ptr<Network> NetworkTask::another_network() const {
  if (!options_.rebuild) Module::replica();
  return options_.rebuild();
}

}  // namespace lockstep
