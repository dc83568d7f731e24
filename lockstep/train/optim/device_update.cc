// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/optim/device_update.h"

#include <torch/torch.h>

namespace lockstep {

// The rate is changed in place, since a recorded step reads it at the same address.
void DeviceUpdate::prepare_step() {
  const auto& groups = optimizer().param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double value = groups[i].options().get_lr();
    const auto& parameter = groups[i].params().at(0);
    // The fused kernels of GPUs take a float for any type of parameters. For fp64 parameters the float would differ
    // from the rate in double. So the rate stays on the host, and such steps are not recorded.
    if (!parameter.is_cpu() && parameter.scalar_type() == at::kDouble) return;
    if (i == rates_.size()) {
      const auto options =
          parameter.options().dtype(parameter.is_cpu() ? at::kDouble : at::kFloat).requires_grad(false);
      rates_.push_back(at::full({}, value, options));
      values_.push_back(value);
    } else if (values_[i] != value) {
      rates_[i].fill_(value);
      values_[i] = value;
    }
  }
}

}  // namespace lockstep
