// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The options of a training.
///
///     lockstep::TrainerOptions options{.max_epochs = 5, .seed = 7};
///     options.step.precision = lockstep::Precision::kBf16;
///     options.snapshot.folder = "runs/digits/snapshots";
///     lockstep::Trainer trainer(options);

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/comm/data_parallel.h"
#include "lockstep/device/device.h"
#include "lockstep/train/guard/guard_options.h"
#include "lockstep/train/precision.h"
#include "lockstep/train/toggle.h"

namespace lockstep {

/// The choice of a device and its features.
struct DeviceOptions {
  Accelerator accelerator = Accelerator::kAuto;  ///< For Trainer::fit() without a group, since a group has its own.
  Toggle graph = Toggle::kAuto;                  ///< Record whole steps once and replay them.
  Toggle keep_data = Toggle::kAuto;              ///< Keep all samples in the device's memory, by Loader::cache_on().
  bool deterministic = false;  ///< Use only deterministic algorithms. An operation without one throws.
};

/// The options of one optimizer step.
struct StepOptions {
  Precision precision = Precision::kFp32;
  std::int64_t accumulate = 1;  ///< Number of batches whose gradients make one step.
  double clip_norm = 0;         ///< L2 norm to clip all gradients together to. 0 for no clipping.
  double clip_value = 0;        ///< Magnitude to clip each element of a gradient to. 0 for no clipping.
  bool sync_batchnorm = false;  ///< Compute BatchNorm's statistics over the samples of all ranks.
  std::int64_t replicas = 1;    ///< Number of copies of the module in threads of a single rank, for strategy "dp".
  Toggle heal =
      Toggle::kAuto;  ///< Replace a rank that died, where its parent starts it again. With kAuto only on CPUs.
  DeviceOptions device{};
  DataParallelOptions parallel{};
};

/// Limits on the data of an epoch.
struct DataLimits {
  double train_batches = 0;           ///< Global batches of an epoch, a share if below 1, else a number. 0 for all.
  double validation_batches = 0;      ///< The same for validation, in batches of `validation_batch`.
  std::int64_t validation_batch = 0;  ///< Samples of all ranks. 0 for the validation loader's own global batch.
  std::int64_t overfit_batches = 0;   ///< Train and validate on this many first batches only, unshuffled. 0 for all.
  std::int64_t validate_every = 1;    ///< Epochs between validations. 0 for never.
};

/// When and in which folder to save the state, and the snapshot to resume from. Nothing is saved if `folder` is empty.
struct SnapshotOptions {
  std::filesystem::path folder{};      ///< `snapshots/` of the run folder.
  std::int64_t every_epochs = 1;       ///< Epochs between snapshots. 0 for never.
  std::int64_t every_steps = 0;        ///< Steps between snapshots. 0 for never.
  std::chrono::seconds every{0};       ///< Time between snapshots, by rank 0's clock. 0 for never.
  std::int64_t keep = 3;               ///< Number of newest snapshots to keep. 0 for all.
  std::chrono::seconds keep_every{0};  ///< Of older ones, also keep one for each such time. 0 for none.
  std::string monitor{};               ///< Metric whose best snapshot is kept too, as `best`. Empty for none.
  std::int64_t in_memory = 0;          ///< Steps between states that the parent process holds. 0 for never.
  int memory = -1;                     ///< On rank 0, the descriptor of their memory, from HeldSnapshot. Otherwise -1.
  bool monitor_wants_max = false;      ///< True if a larger value of the metric is better.
  std::optional<std::filesystem::path> resume_from{};  ///< A snapshot, such as `…/step-0000000120`.
};

/// True if `value` of the monitored metric is better than the best one in `numbers`, which are a TrainingState's. Then
/// it is the best one there from now on.
bool takes_best(const SnapshotOptions& options, double value, std::map<std::string, double>& numbers);

struct TrainerOptions {
  std::int64_t max_epochs = 1;       ///< 0 for no limit.
  std::int64_t max_steps = 0;        ///< Optimizer updates in the whole run. 0 for no limit.
  std::chrono::seconds max_time{0};  ///< Time limit of the whole run, resumes included, by rank 0's clock. 0 for none.
  std::int64_t log_every = 50;       ///< Steps between losses in StepEnded. 0 for each epoch's end only.
  std::uint64_t seed = 42;           ///< Seed of random choices within a step, such as dropout.
  StepOptions step{};
  DataLimits data{};
  SnapshotOptions snapshot{};
  GuardOptions guard{};
};

/// Returns options that test in seconds whether a run works. They run one batch of training and one of validation, and
/// save nothing.
TrainerOptions fast_dev_run(TrainerOptions options);

}  // namespace lockstep
