// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/fit/participants.h"
#include "lockstep/train/fit/snapshot_keeper.h"
#include "lockstep/train/fit/trained_model.h"
#include "lockstep/train/sums/loss_counter.h"
#include "lockstep/train/sums/rank_part.h"
#include "lockstep/watch/rank_memory.h"

namespace lockstep {

/// Keeps a training going if a rank dies and its parent starts it again. The survivors give the newcomer all state from
/// their memory, and all ranks repeat the torn step.
///
/// A healer does nothing if no parent starts dead ranks again, nor with powersgd, since each rank has errors of its own
/// there, which are as large as the weights. On a device it works only if StepOptions::heal is on. The host must then
/// wait for each step's averaged gradients before it starts the update.
class Healer {
 public:
  /// All must outlive this object. Throws: Error(kRecipe) if StepOptions::heal is on and the training cannot be healed.
  Healer(TrainedModel& model, LossCounter& losses, SnapshotKeeper& keeper, const Participants& participants,
         const StepOptions& options);

  bool is_on() const { return memory_ != nullptr; }
  /// True if this process was started in a dead rank's place and has not got the state yet.
  bool is_newcomer() const { return model_.group().is_newcomer(); }

  /// Keeps the training's first state, and tells the parent that this rank can be replaced from now on.
  void begin(const TrainingState& state);
  /// Keeps the part of the next update's state that only this rank knows. `digest` counts the samples of that step.
  /// Call it after the step's forward passes, before gradients are averaged. A rank that finishes the update has got
  /// this rank's gradients, so this record exists whenever some rank has the state after the update.
  void note_forward(std::int64_t next_step, const SampleDigest& digest);
  /// Keeps the state after an update. Call it before the next collective.
  void note_update(const TrainingState& state, std::int64_t samples);
  /// Keeps the fact that extensions were told of the epoch's end after the last update.
  void note_epoch_heard(const std::string& number);
  /// Between begin_change() and end_change() the weights are incomplete, so other ranks must not take them.
  void begin_change() { is_whole_ = false; }
  void end_change() { is_whole_ = true; }

  /// Meets the other ranks again, and returns the state after the last update that any of them finished. Model,
  /// optimizer and sums are then in that state too.
  /// Collective: yes, of the survivors and the newcomers. Blocks: until the dead rank is there again.
  /// Throws: Error(kPeer) if it does not come, or if no rank has a whole state.
  TrainingState heal();

  /// Calls heal(). Returns nothing if heal() throws Error(kPeer).
  std::optional<TrainingState> try_to_heal();

  /// True if the state was healed after an update. The work that follows an update, such as a save, is then done again.
  bool owes_step_end() const { return owes_step_end_ && noted_.samples > 0; }
  void paid_step_end() { owes_step_end_ = false; }
  /// Samples of all ranks in the update that heal() returned to.
  std::int64_t step_samples() const { return noted_.samples; }
  /// Sets the step and samples of `first` to those at the start of the training that is healed.
  void restore_first(TrainingState& first) const;

 private:
  /// The state after the last update, which does not change until the next one.
  struct Noted {
    TrainingState state;
    std::map<std::string, double> scheduler;
    std::optional<SnapshotKeeper::SavedAt> saved;
    std::int64_t samples = 0;  ///< Of all ranks in that update. 0 if none was made since the start.
    std::int64_t first_step = 0;
    std::int64_t first_samples = 0;
    bool has_heard = false;  ///< Extensions have heard of the epoch's end.
  };

  TrainingState share();
  std::string text() const;
  void take(const std::string& text);
  void take_tensors(int root, bool is_new);
  void take_own_part();
  std::vector<at::Tensor> buffers() const;

  TrainedModel& model_;
  LossCounter& losses_;
  SnapshotKeeper& keeper_;
  const Participants& participants_;
  const StepOptions& options_;
  std::unique_ptr<RankMemory> memory_;
  Noted noted_;
  BucketLayout layout_;  ///< Empty until the reducer has found it.
  bool is_whole_ = false;
  bool owes_step_end_ = false;
  bool owes_listeners_;  ///< A newcomer's listeners have not got the dead process's numbers yet.
};

}  // namespace lockstep
