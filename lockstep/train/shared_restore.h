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

// Restores a snapshot on all ranks. Only rank 0 reads the files, and the other ranks get the data from rank 0's memory.
// A thousand ranks that open the same files at once would hold up a parallel file system, and the folder need not be
// visible on all nodes.
//
//     auto state = lockstep::restore_shared(snapshot, module, optimizer, group);
//     lockstep::share_weights(module, group);  // or TrainedModel::connect(), which does so too

/// Restores weights and buffers on rank 0, and the optimizer's state on every rank. Returns the snapshot's numbers.
/// Only rank 0 uses `snapshot`.
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

/// Reads the tensors of extensions for which `wants` returns true, and calls `take` with each on every rank, one after
/// the other. Only rank 0 uses `wants` and `snapshot`.
/// Collective: yes. Throws: Error(kIo) or Error(kData), the same on every rank; what `take` throws.
void for_each_shared_tensor(const std::filesystem::path& snapshot, Group& group,
                            const std::function<bool(const std::string& name)>& wants,
                            const std::function<void(const std::string& name, const at::Tensor&)>& take);

}  // namespace lockstep
