// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/synced_statistics.h"

#include "lockstep/base/error.h"

namespace lockstep {

SyncedStatistics::SyncedStatistics(Module& module, Group& group)
    : module_(module), sync_(std::make_shared<StatisticsSync>()) {
  sync_->sum = [&group](at::Tensor& numbers) { group.all_reduce_sum(numbers); };
  if (set_statistics_sync(module, sync_) > 0) return;
  throw Error(ErrorKind::kRecipe, "trainer.sync_batchnorm is set, and the model has no BatchNorm layer of Lockstep's",
              "leave it out, or build the model of lockstep::BatchNorm");
}

SyncedStatistics::~SyncedStatistics() {
  set_statistics_sync(module_, nullptr);
  sync_->sum = [](at::Tensor&) {
    throw Error(ErrorKind::kUsage,
                "backward() through a synchronised BatchNorm layer comes after its training has ended",
                "run forward again, which now takes this rank's own statistics");
  };
}

}  // namespace lockstep
