// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/group.h"
#include "lockstep/models/batch_norm.h"
#include "lockstep/train/module.h"

namespace lockstep {

/// While an object of this class lives, a module's BatchNorm layers compute over the samples of all ranks. Afterwards
/// each rank's layers use the rank's own samples again.
class SyncedStatistics {
 public:
  /// `module` and `group` must outlive this object. Throws: Error(kRecipe) if there is no BatchNorm layer.
  SyncedStatistics(Module& module, Group& group);
  ~SyncedStatistics();
  SyncedStatistics(const SyncedStatistics&) = delete;
  SyncedStatistics& operator=(const SyncedStatistics&) = delete;

  /// Sets whether this rank has its own samples in the next batch, as in StatisticsSync::takes_part.
  void set_takes_part(bool takes_part) { sync_->takes_part = takes_part; }

 private:
  Module& module_;
  std::shared_ptr<StatisticsSync> sync_;  ///< Graphs of the layers keep it too.
};

}  // namespace lockstep
