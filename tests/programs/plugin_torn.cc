// SPDX-License-Identifier: Apache-2.0
// A network in a shared library whose layers do not fit the data, because it does not flatten the image.
#include <torch/torch.h>

#include "lockstep/lockstep.h"

namespace {

struct Net : lockstep::Network {
  explicit Net(const lockstep::NetworkOptions& options) {
    fc = register_module("fc", torch::nn::Linear(77, options.classes));
  }
  at::Tensor forward(const at::Tensor& input) override { return fc->forward(input); }

  torch::nn::Linear fc = nullptr;
};

}  // namespace

LOCKSTEP_NETWORK_PLUGIN(Net)
