// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/task/network_task.h"

#include <torch/torch.h>

namespace lockstep {

NetworkTask::NetworkTask(std::shared_ptr<Network> network, TaskOptions options)
    : network_(std::move(network)), options_(std::move(options)) {
  convert_floating(*network_, options_.type);
  adopt(*this, *network_);
}

void NetworkTask::train(bool on) {
  Module::train(on);
  network_->train(on);
}

std::unique_ptr<torch::optim::Optimizer> NetworkTask::configure_optimizer() {
  return make_optimizer(*this, options_.optimizer, options_.groups);
}

ScheduleOptions NetworkTask::configure_schedule(const TrainingPlan& plan) {
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

void NetworkTask::use_channels_last() {
  is_channels_last_ = true;
  lay_channels_last(*this);
}

std::shared_ptr<Network> NetworkTask::another_network() const {
  if (!options_.rebuild) Module::replica();
  return options_.rebuild();
}

}  // namespace lockstep
