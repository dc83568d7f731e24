// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/sums/device_loss.h"

#include <torch/torch.h>

namespace lockstep {

DeviceLoss::DeviceLoss(const c10::Device& device)
    : sums_(at::zeros({2}, at::TensorOptions(device).dtype(at::kDouble))) {}

// One kernel takes the loss as double, multiplies it by the samples, and adds it to both sums.
void DeviceLoss::add(const at::Tensor& mean, std::int64_t samples) {
  const torch::NoGradGuard no_grad;
  sums_.add_(mean.detach(), static_cast<double>(samples));
}

DeviceLoss::Sums DeviceLoss::sums() const {
  const auto host = sums_.to(at::kCPU);
  return {host.const_data_ptr<double>()[0], host.const_data_ptr<double>()[1]};
}

// The sums are set in place, since a recorded step continues to write there.
void DeviceLoss::set(const Sums& sums) {
  sums_[0].fill_(sums.epoch);
  sums_[1].fill_(sums.since_logged);
}

}  // namespace lockstep
