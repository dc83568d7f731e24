// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/trainer.h"

#include <memory>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/leave_on_failure.h"
#include "lockstep/comm/nccl_settings.h"
#include "lockstep/device/device_failure.h"
#include "lockstep/snapshot/snapshot_lock.h"
#include "lockstep/train/fit/fit_loop.h"

namespace lockstep {

FitResult Trainer::fit(Module& module, DataModule& data) {
  if (options_.step.device.deterministic) set_where_unset(deterministic_settings());
  auto group = join({.accelerator = options_.step.device.accelerator});
  return fit(module, data, group);
}

FitResult Trainer::fit(Module& module, DataModule& data, Group& group) {
  if (std::exchange(has_fitted_, true) && !options_.snapshot.folder.empty()) {
    throw Error(ErrorKind::kUsage,
                options_.snapshot.folder.string() + " holds the snapshots of this Trainer's first fit()",
                "make another Trainer, with its own snapshot folder or with resume_from");
  }
  if (options_.step.device.deterministic) require_deterministic_collectives(group);
  FitResult result;
  std::unique_ptr<RunLock> lock;
  leave_on_failure(group, [&] {
    if (const auto& folder = options_.snapshot.folder; !folder.empty()) {
      const auto self = ProcessIdentity::of_process(Environment::of_process());
      on_rank_zero(group, [&] { lock = lock_snapshots(folder, self); });
    }
    result = naming_device_failures(group.device(), [&] {
      return FitLoop(options_, Participants(listeners_, extensions_), module, data, group).run();
    });
  });
  return result;
}

}  // namespace lockstep
