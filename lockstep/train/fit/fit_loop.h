// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/device/step_lead.h"
#include "lockstep/observe/run_control.h"
#include "lockstep/train/fit/batch_feed.h"
#include "lockstep/train/fit/device_samples.h"
#include "lockstep/train/fit/graph_stepper.h"
#include "lockstep/train/fit/healer.h"
#include "lockstep/train/fit/participants.h"
#include "lockstep/train/fit/run_scopes.h"
#include "lockstep/train/fit/sanity_check.h"
#include "lockstep/train/fit/snapshot_keeper.h"
#include "lockstep/train/fit/step_guard.h"
#include "lockstep/train/fit/step_timer.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/fit/validator.h"

namespace lockstep {

/// One training, from its start or a snapshot to its end. Trainer::fit() runs this loop. The class is not for users.
///
/// The loop decides which step, validation or save comes next. Its parts do the work, and each part has its own header.
class FitLoop {
 public:
  /// Prepares the data and creates all parts. Collective: yes.
  FitLoop(const TrainerOptions& options, const Participants& participants, Module& module, DataModule& data,
          Group& group);

  /// Trains to the end. Call it once. Collective: yes. Throws: as Trainer::fit().
  FitResult run();

 private:
  void start();
  FitResult train();
  bool recovers();
  void check_sanity();
  void announce();
  bool is_done() const;
  void train_epoch();
  void make_step(const StepBatches& batches);
  void leave_out_step();
  StepSignals signals();
  void count_step(const StepBatches& batches);
  void end_step(std::int64_t samples);
  void end_epoch();
  bool is_due_at_epochs_end(std::int64_t every) const;
  bool validate(const Validator::Metrics& logged);
  void judge(const ValidationEnded& event);
  void save_open_epoch();
  void save();
  void hold();
  void tell(const std::optional<SnapshotWritten>& event);
  void refresh_statistics();
  FitResult finish();
  std::map<std::string, std::string> findings() const;
  StepPlace place() const { return {.step = state_.step, .epoch = state_.epoch}; }

  const TrainerOptions& options_;
  const Participants participants_;
  Group& group_;
  StepTimer timer_;
  StepLead lead_;
  TrainingData data_;
  RunScopes scopes_;
  TrainedModel model_;
  DeviceSamples samples_;
  ForwardPass forward_;
  LossCounter losses_;
  SnapshotKeeper keeper_;
  Validator validator_;
  Healer healer_;
  std::optional<BatchFeed> feed_;
  std::optional<StepRunner> steps_;
  std::optional<GraphStepper> graph_;
  std::optional<StepGuard> guard_;

  TrainingState state_;  ///< Sums in it are this rank's part, or with a part above.
  StopRequest stop_;
  bool is_best_ = false;             ///< The validation that ended last.
  bool is_validation_kept_ = false;  ///< Or was found not to be worth it.
  TrainingState first_;              ///< As this start found it.
  SampleDigest digest_;              ///< With the samples of the step in progress.
  ToldEvents told_;
  Clock::time_point last_save_;
  std::optional<RunControl> control_;  ///< On rank 0, which decides for all.
};

}  // namespace lockstep
