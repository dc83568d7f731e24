// SPDX-License-Identifier: Apache-2.0
// A data-parallel training loop of your own. Start it with `lockstep launch -n 2 -- build/consumer`, srun or torchrun.
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <iostream>

#include "lockstep/lockstep.h"

namespace {

constexpr int kSamples = 8;  // Of each rank.

double final_loss() {
  auto world = lockstep::join();
  torch::nn::Linear net(4, 1);
  lockstep::DistributedDataParallel ddp(*net, world);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  at::Tensor loss;
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    const auto x = at::randn({kSamples, 4});
    loss = (net(x) - x.sum(1, true)).square().mean();
    ddp.backward(loss, kSamples);
    optimizer.step();
  }
  return loss.item<double>();
}

}  // namespace

int main() {
  try {
    const double loss = final_loss();
    std::cout << "loss " << loss << "\n";
    return loss < 0.01 ? 0 : 1;
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
