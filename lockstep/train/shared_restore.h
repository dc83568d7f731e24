// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/snapshot/snapshot.h"

namespace lockstep {

// Rank 0 alone reads a snapshot, and the other ranks get it from rank 0's memory. A thousand ranks that open the same
// files at once would hold up a parallel file system, and the folder need not be one that all nodes see.
//
//     auto state = lockstep::restore_shared(snapshot, module, optimizer, group);
//     lockstep::share_weights(module, group);  // or TrainedModel::connect(), which does so too

/// Restores weights and buffers on rank 0, and the optimizer's state on every rank. Returns the snapshot's numbers.
/// `snapshot` counts on rank 0 alone.
/// Collective: yes. Throws: as restore_snapshot(), the same error on every rank.
TrainingState restore_shared(const std::filesystem::path& snapshot, torch::nn::Module& module,
                             torch::optim::Optimizer& optimizer, Group& group);

/// Overwrites all weights and buffers with those of rank `root`. Collective: yes.
void share_weights(torch::nn::Module& module, Group& group, int root = 0);

/// Gives the optimizer's state of rank `root` to all ranks. If `is_new`, this rank's optimizer has no state yet, or
/// another one that is to be replaced. Otherwise it has tensors of the same names and shapes.
/// Collective: yes.
void share_optimizer(torch::nn::Module& module, torch::optim::Optimizer& optimizer, Group& group, int root,
                     bool is_new);

/// Returns the tensors of rank `root`, by name, in memory of their own. Those of other ranks are ignored.
/// Collective: yes.
std::map<std::string, at::Tensor> share_tensors(const std::vector<SavedTensor>& tensors, Group& group, int root);

/// Calls `take` on every rank with each extension tensor whose name `wants` wants, one after the other. Both, and
/// `snapshot`, decide on rank 0 alone.
/// Collective: yes. Throws: Error(kIo) or Error(kData), the same on every rank; what `take` throws.
void for_each_shared_tensor(const std::filesystem::path& snapshot, Group& group,
                            const std::function<bool(const std::string& name)>& wants,
                            const std::function<void(const std::string& name, const at::Tensor&)>& take);

}  // namespace lockstep
