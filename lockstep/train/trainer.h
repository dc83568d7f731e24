// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Trains a Module on a DataModule's batches: the loop, the ranks, validation and snapshots.
///
///     lockstep::TrainerOptions options{.max_epochs = 5};
///     options.snapshot.folder = "runs/digits/snapshots";
///     lockstep::Trainer trainer(options);
///     const auto result = trainer.fit(module, data);
///     std::cout << result.state.step << " steps in " << result.seconds << " s\n";

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

/// The choice of a device and its features.
struct DeviceOptions {
  Accelerator accelerator = Accelerator::kAuto;  ///< For Trainer::fit() without a group; a group has its own.
  Toggle graph = Toggle::kAuto;                  ///< Record whole steps once and replay them.
  Toggle keep_data = Toggle::kAuto;              ///< Keep all samples in the device's memory, by Loader::cache_on().
  bool deterministic = false;  ///< Use only algorithms with the same bits each time; an operation without one throws.
};

/// The options of one optimizer step.
struct StepOptions {
  Precision precision = Precision::kFp32;
  std::int64_t accumulate = 1;  ///< Number of batches whose gradients make one step.
  double clip_norm = 0;         ///< L2 norm to clip all gradients together to; 0 for no clipping.
  double clip_value = 0;        ///< Magnitude to clip each number of a gradient to; 0 for no clipping.
  bool sync_batchnorm = false;  ///< Compute BatchNorm's statistics over the samples of all ranks.
  std::int64_t replicas = 1;    ///< Copies of the module in threads of a single rank: strategy "dp".
  DeviceOptions device{};
  DataParallelOptions parallel{};
};

/// Limits on the data of an epoch.
struct DataLimits {
  double train_batches = 0;           ///< Global batches of an epoch: a share if below 1, else a number; 0 for all.
  double validation_batches = 0;      ///< The same for validation, in batches of `validation_batch`.
  std::int64_t validation_batch = 0;  ///< Samples of all ranks; 0 for the validation loader's own global batch.
  std::int64_t overfit_batches = 0;   ///< Train and validate on this many first batches only, unshuffled; 0 for all.
  std::int64_t validate_every = 1;    ///< Epochs between validations; 0 for never.
};

/// When and in which folder to save the state, and the snapshot to resume from. Nothing is saved if `folder` is empty.
struct SnapshotOptions {
  std::filesystem::path folder{};  ///< `snapshots/` of the run folder.
  std::int64_t every_epochs = 1;   ///< Epochs between snapshots; 0 for never.
  std::int64_t every_steps = 0;    ///< Steps between snapshots; 0 for never.
  std::chrono::seconds every{0};   ///< Time between snapshots, by rank 0's clock; 0 for never.
  std::int64_t keep = 3;           ///< Number of newest snapshots to keep; 0 for all.
  std::string monitor{};           ///< Metric whose best snapshot is kept too, as `best`; empty for none.
  bool monitor_wants_max = false;  ///< True if a larger value of the metric is better.
  std::optional<std::filesystem::path> resume_from{};  ///< A snapshot: `…/step-0000000120`.
};

/// What a training watches for.
struct GuardOptions {
  /// End the run with Error(kRecipe) if an epoch's training loss is not finite, before anything of it is saved.
  bool stop_on_nonfinite = true;
};

struct TrainerOptions {
  std::int64_t max_epochs = 1;       ///< 0 for no limit.
  std::int64_t max_steps = 0;        ///< Optimizer updates in the whole run; 0 for no limit.
  std::chrono::seconds max_time{0};  ///< Time limit of the whole run, resumes included, by rank 0's clock; 0 for none.
  std::int64_t log_every = 50;       ///< Steps between losses in StepEnded; 0 for each epoch's end only.
  std::uint64_t seed = 42;           ///< Seed of random choices within a step, such as dropout.
  StepOptions step{};
  DataLimits data{};
  SnapshotOptions snapshot{};
  GuardOptions guard{};
};

/// Returns options that test in seconds whether a run works: one training batch, one of validation, nothing saved.
TrainerOptions fast_dev_run(TrainerOptions options);

/// The result of a training.
struct FitResult {
  TrainingState state;
  std::int64_t steps_now = 0;  ///< Steps of this start.
  std::string weights_digest;
  std::map<std::string, std::string> found{};  ///< As RunEnded::facts.
  std::string stopped_by;                      ///< As RunEnded::stopped_by.
  bool wants_requeue = false;                  ///< True if it stopped on request before it was done.
  double seconds = 0;
  double samples_per_second = 0;
  std::optional<double> time_to_first_step_s;  ///< Time from this process's start; absent if no step was done.
};

/// Trains a Module on a DataModule's batches, the same on one rank and on thousands.
///
/// A trainer without a snapshot folder may fit() several times. Each training starts at step 0, from the module's
/// weights as they are; extensions start anew too. After fit(), the module holds the last step's weights, also if an
/// extension averages them, and also if fit() throws.
class Trainer {
 public:
  explicit Trainer(TrainerOptions options = {}) : options_(std::move(options)) {
    // A step that runs out of memory is tried again in smaller parts, to say what would fit.
    options_.step.parallel.permits_plain_backward = true;
  }

  /// Adds a listener, which must outlive the trainer. Events go to listeners in the order of adding. If one answers
  /// kStop on any rank, all ranks stop.
  void add(Listener& listener) { listeners_.push_back(&listener); }
  /// Adds an extension, which must outlive the trainer. Every rank must add the same ones.
  void add(Extension& extension) { extensions_.push_back(&extension); }

  /// Joins the other ranks, then trains. Collective: yes.
  FitResult fit(Module& module, DataModule& data);
  /// Trains in a group that has joined. The module moves to the group's device before its optimizer is made. Weights
  /// are those of rank 0, or of the snapshot.
  ///
  /// SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 to any rank end the training on all ranks after the same step, with one
  /// snapshot. On a device that is one step later.
  ///
  /// Collective: yes.
  /// Throws: Error of any kind; snapshots saved before are unchanged. Error(kUsage) for a second training into the same
  /// snapshot folder. Error(kEnvironment) naming the process if another one writes there.
  FitResult fit(Module& module, DataModule& data, Group& group);

 private:
  TrainerOptions options_;
  std::vector<Listener*> listeners_;
  std::vector<Extension*> extensions_;
  bool has_fitted_ = false;
};

}  // namespace lockstep
