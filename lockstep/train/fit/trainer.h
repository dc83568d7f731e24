// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Trains a Module on a DataModule's batches. It has the loop, the ranks, validation and snapshots.
///
///     lockstep::TrainerOptions options{.max_epochs = 5};
///     options.snapshot.folder = "runs/digits/snapshots";
///     lockstep::Trainer trainer(options);
///     const auto result = trainer.fit(module, data);
///     std::cout << result.state.step << " steps in " << result.seconds << " s\n";

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/observe/events.h"
#include "lockstep/snapshot/snapshot.h"
#include "lockstep/train/data_module.h"
#include "lockstep/train/extension.h"
#include "lockstep/train/fit/trainer_options.h"
#include "lockstep/train/module.h"

namespace lockstep {

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
  std::optional<double> time_to_first_step_s;  ///< Time from this process's start. Absent if no step was done.
};

/// Trains a Module on a DataModule's batches, the same on one rank and on thousands.
///
/// A trainer without a snapshot folder may fit() several times. Each training starts at step 0, from the module's
/// present weights, and extensions start again too. After fit(), the module holds the last step's weights, also if an
/// extension averages them, and also if fit() throws.
class Trainer {
 public:
  explicit Trainer(TrainerOptions options = {}) : options_(std::move(options)) {
    // If a step runs out of memory, smaller batches are tried, so that the error can name a batch that fits.
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
  /// snapshot. On a device this happens one step later.
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
