// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "lockstep/train/module.h"
#include "lockstep/train/precision.h"

namespace lockstep {

/// Passes the loader's batches to validation_step(), until all ranks together have seen `samples`. If `is_stopped` is
/// given, it is called after each batch. Returns true if no call stopped the pass. The module is left in eval mode.
///
/// Collective: only if `is_stopped` is collective.
bool validate_batches(Module& module, Loader& loader, std::int64_t samples, Precision precision,
                      const std::function<bool()>& is_stopped = {});

/// Returns the metrics of a module over all samples of a loader. Each sample counts once, whatever the number of ranks.
/// The module is left in eval mode.
///
/// Collective: yes. Throws: the module's and the loader's errors; Error(kPeer) if a rank is lost.
std::map<std::string, double> evaluated(Module& module, Loader& loader, Group& group,
                                        Precision precision = Precision::kFp32);

/// Runs predict_step() for each sample of a loader, in order. On rank 0, `take` gets the results of each batch, with
/// the index of the batch's first sample.
///
/// Shape: rows [n, …] on the CPU. Collective: yes. Throws: as evaluated(); what `take` throws, on every rank.
void predict(Module& module, Loader& loader, Group& group, Precision precision,
             const std::function<void(std::int64_t first, const at::Tensor& rows)>& take);

}  // namespace lockstep
