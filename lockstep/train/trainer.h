// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/data_parallel.h"
#include "lockstep/observe/events.h"
#include "lockstep/snapshot/snapshot.h"
#include "lockstep/train/data_module.h"
#include "lockstep/train/extension.h"
#include "lockstep/train/module.h"
#include "lockstep/train/precision.h"
#include "lockstep/train/toggle.h"

namespace lockstep {

/// What the device is asked for.
struct DeviceOptions {
  Accelerator accelerator = Accelerator::kAuto;  ///< Of Trainer::fit() without a group; with one, the group's counts.
  Toggle graph = Toggle::kAuto;                  ///< Whole steps recorded once and replayed, where that can be.
  Toggle keep_data = Toggle::kAuto;              ///< All samples in the device's memory, where Loader::cache_on() can.
  bool deterministic = false;  ///< Only algorithms that give the same bits each time; an operation without one throws.
};

/// How one optimizer step is made.
struct StepOptions {
  Precision precision = Precision::kFp32;
  std::int64_t accumulate = 1;  ///< Batches whose gradients make one step.
  double clip_norm = 0;         ///< Largest L2 norm of all gradients together; 0 clips nothing.
  double clip_value = 0;        ///< Largest magnitude of a gradient's number; 0 clips nothing.
  bool sync_batchnorm = false;  ///< BatchNorm takes its statistics over all ranks' samples.
  std::int64_t replicas = 1;    ///< Copies of the module in threads of the only rank: strategy "dp".
  DeviceOptions device{};
  DataParallelOptions parallel{};
};

/// How much of the data an epoch sees.
struct DataLimits {
  double train_batches = 0;       ///< Global batches of an epoch: below 1 a share of them, from 1 on a number; 0: all.
  double validation_batches = 0;  ///< The same.
  std::int64_t overfit_batches = 0;  ///< Train and validate on the first few batches only, unshuffled; 0 for no.
  std::int64_t validate_every = 1;   ///< Epochs; 0 for never.
};

/// When the state is saved, where, and from what the run goes on. Nothing is saved where `folder` is empty.
struct SnapshotOptions {
  std::filesystem::path folder{};  ///< `snapshots/` of the run folder.
  std::int64_t every_epochs = 1;   ///< 0 for never.
  std::int64_t every_steps = 0;    ///< 0 for never.
  std::chrono::seconds every{0};   ///< By rank 0's clock; 0 for never.
  std::int64_t keep = 3;           ///< The newest ones; 0 keeps all.
  std::string monitor{};           ///< A metric whose best snapshot is kept besides, as `best`; empty for none.
  bool monitor_wants_max = false;  ///< It should rise.
  std::optional<std::filesystem::path> resume_from{};  ///< A snapshot: `…/step-0000000120`.
};

struct TrainerOptions {
  std::int64_t max_epochs = 1;       ///< 0 for no limit.
  std::int64_t max_steps = 0;        ///< Optimizer updates in the whole run; 0 for no limit.
  std::chrono::seconds max_time{0};  ///< Of this start, by rank 0's clock; 0 for no limit.
  std::int64_t log_every = 50;       ///< Steps between losses in StepEnded; 0 for each epoch's end only.
  std::uint64_t seed = 42;           ///< Of random choices within a step, such as dropout.
  StepOptions step{};
  DataLimits data{};
  SnapshotOptions snapshot{};
};

/// The same, to see in seconds whether everything works: one training batch, one of validation, nothing saved.
TrainerOptions fast_dev_run(TrainerOptions options);

/// What a training came to.
struct FitResult {
  TrainingState state;
  std::int64_t steps_now = 0;  ///< Of this start.
  std::string weights_digest;
  std::map<std::string, std::string> found{};  ///< As RunEnded's facts.
  std::string stopped_by;                      ///< As RunEnded's.
  bool wants_requeue = false;                  ///< Stopped on request before it was done.
  double seconds = 0;
  double samples_per_second = 0;
  std::optional<double> time_to_first_step_s;  ///< From this process's start; absent where no step was done.
};

/// Trains a Module on a DataModule's batches, the same on one rank and on thousands.
class Trainer {
 public:
  explicit Trainer(TrainerOptions options = {}) : options_(std::move(options)) {}

  /// `listener` must outlive the trainer. Listeners are asked in the order of adding; any rank's kStop stops all.
  void add(Listener& listener) { listeners_.push_back(&listener); }
  /// The same on every rank. `extension` must outlive the trainer.
  void add(Extension& extension) { extensions_.push_back(&extension); }

  /// Joins the other ranks by itself.
  FitResult fit(Module& module, DataModule& data);
  /// The same in a group that has met. The module is moved to the group's device, before its optimizer is made. Weights
  /// are those of rank 0, or of the snapshot.
  ///
  /// SIGTERM, SIGINT and SIGUSR1 to any rank end it on all ranks after the same step, or on a device the one after,
  /// with one snapshot. Collective: yes. Throws: Error of any kind; what was saved is untouched.
  FitResult fit(Module& module, DataModule& data, Group& group);

 private:
  TrainerOptions options_;
  std::vector<Listener*> listeners_;
  std::vector<Extension*> extensions_;
};

}  // namespace lockstep
