// SPDX-License-Identifier: Apache-2.0
// A network in a shared library, written as users write theirs.
#include <torch/torch.h>

#include "lockstep/lockstep.h"

namespace {

struct Net : lockstep::Network {
  explicit Net(const lockstep::NetworkOptions& options) {
    std::int64_t width = 1;
    for (const auto size : options.input_shape) width *= size;
    fc = register_module("fc", torch::nn::Linear(width, options.classes));
  }
  at::Tensor forward(const at::Tensor& input) override { return fc->forward(input.flatten(1)); }

  torch::nn::Linear fc = nullptr;
};

}  // namespace

LOCKSTEP_NETWORK_PLUGIN(Net)
