// SPDX-License-Identifier: Apache-2.0
// A program for three ranks or more, in which rank 1 calls another collective than the others. It never ends by itself.
#include <torch/torch.h>

#include "lockstep/comm/join.h"

int main() {
  auto world = lockstep::join();
  auto whole = torch::zeros({1024});
  world.all_reduce_sum(whole);
  auto other = torch::zeros({8});
  world.rank() == 1 ? world.broadcast(other, 0) : world.all_reduce_sum(whole);
  return 0;
}
