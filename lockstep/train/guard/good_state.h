// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/snapshot/snapshot.h"
#include "lockstep/train/extension.h"
#include "lockstep/train/module.h"
#include "lockstep/train/optim/device_update.h"

namespace lockstep {

/// A copy of what steps change, to go back to: weights, buffers, optimizer state, and the tensors of extensions. Each
/// rank keeps its own in host memory, so that going back needs no file and no message.
class GoodState {
 public:
  /// All must outlive this object. `update` is the optimizer's if it has one, else null.
  GoodState(Module& module, torch::optim::Optimizer& optimizer, DeviceUpdate* update,
            const std::vector<Extension*>& extensions);

  /// Copies the state after step `step`, unless it is that of this step already.
  /// Blocks: until the device is done. Throws: as content_of().
  void keep(std::int64_t step);
  /// Puts the copy back, which is from now on the state after step `step`. Extensions that save tensors are restored
  /// and started anew. Nothing else may read the weights meanwhile. Blocks: until the device is done.
  void put_back(std::int64_t step);
  /// Returns the step after which the training had this state.
  std::int64_t step() const { return content_.state.step; }

 private:
  Module& module_;
  torch::optim::Optimizer& optimizer_;
  DeviceUpdate* update_;
  const std::vector<Extension*>& extensions_;
  SnapshotContent content_;
  std::vector<std::map<std::string, at::Tensor>> of_extensions_;  ///< In the order of extensions_.
};

}  // namespace lockstep
