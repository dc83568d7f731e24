// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/snapshot/background_save.h"
#include "lockstep/train/fit/participants.h"
#include "lockstep/train/fit/trained_model.h"
#include "lockstep/train/fit/training_data.h"
#include "lockstep/train/sums/loss_counter.h"

namespace lockstep {

/// Writes a training's snapshots and restores it from one.
///
/// While a training runs, the sums in its TrainingState, LossCounter and metrics are each rank's own part. A snapshot
/// holds those of all ranks together and each rank's part. The same number of ranks takes its parts back, so that no
/// bit of a sum changes. If the number of ranks is another one, rank 0 takes the sums of all.
class SnapshotKeeper {
 public:
  /// The arguments must outlive this object. Throws: Error(kUsage) if there is a snapshot folder, and a snapshot cannot
  /// hold the optimizer's state.
  SnapshotKeeper(TrainedModel& model, const TrainingData& data, LossCounter& losses, const Participants& participants,
                 const SnapshotOptions& options);

  /// Returns the initial state of the training. If it resumes, that is the snapshot's state, and model and extensions
  /// are restored from the snapshot. Also connects the model.
  /// Collective: yes. Throws: as restore_snapshot(); Error(kData) for other data; Error(kRecipe) for another seed, or
  /// for another number of samples a step if the schedule goes by steps.
  TrainingState begin(const DataParallelOptions& parallel);

  /// True if there is nothing to write, because there is no snapshot folder, or because the last snapshot has the same
  /// step and epoch.
  bool is_saved(const TrainingState& state) const;
  /// Makes the next save() write even if the step was saved already.
  void forget() { saved_.reset(); }
  /// Begins to write a snapshot of all ranks' state, and makes it `best` if `is_best`. Rank 0 copies and writes it
  /// while training continues.
  /// Collective: yes. Throws: as all_ranks().
  void save(const TrainingState& state, bool is_best);
  /// True if the state after this step should be copied into the parent's memory.
  bool holds(const TrainingState& state) const {
    return is_held_ && options_.in_memory > 0 && state.step % options_.in_memory == 0;
  }
  /// Begins to copy all ranks' state into the parent's memory, as save() does for a snapshot on disk. A failure is a
  /// warning, once, and the training continues.
  /// Collective: yes. Throws: as all_ranks().
  void hold(const TrainingState& state);
  /// Prepares the memory for saves, so that the first save need not wait for it, and checks that the disk has room for
  /// a snapshot.
  /// Collective: yes. Throws: Error(kIo) or Error(kEnvironment) on every rank.
  void prepare();
  /// Returns once no save reads the weights, optimizer state and averages any more. Call it before anything but an
  /// update changes them. An update waits by itself.
  void wait_for_copy();
  /// Returns the snapshot that was completed on disk since the last call, on rank 0 only. If a save failed, it prints a
  /// warning, and the next save tries again.
  std::optional<SnapshotWritten> written();
  /// Waits for the save in flight, and then does the same. Call it before save().
  std::optional<SnapshotWritten> wait_for_earlier();
  /// Waits for the save in flight. If it failed, it is tried once more. Returns the written snapshot, on rank 0.
  /// Collective: yes. Throws: Error(kIo) on all ranks.
  std::optional<SnapshotWritten> settle(const TrainingState& state);
  /// True if a request for a snapshot at this step is the one that the last snapshot answered. On a device a request is
  /// seen one step late, and stays raised until then. So the step after the snapshot sees the same request again.
  bool is_echo(const TrainingState& state) const;

  /// Takes weights, buffers, optimizer state and the tensors of extensions back from the newest whole snapshot. The
  /// position in the data, the step and all sums stay. After three rollbacks to one snapshot, the snapshot before it is
  /// taken. Returns false if there is none yet. Collective: yes. Throws: Error(kRecipe) if all snapshots were tried.
  bool roll_back();

  /// Returns the state with the sums of all ranks, and with the numbers of scheduler, loss scaler, listeners and
  /// extensions.
  /// Collective: yes. Throws: Error(kRecipe) if the training loss is not finite, and `stop_on_nonfinite`.
  TrainingState all_ranks(TrainingState state) const;

  void stop_on_nonfinite(bool stops) { stops_on_nonfinite_ = stops; }

  /// A step may be saved twice, before its epoch is closed and after.
  struct SavedAt {
    std::int64_t step = 0;
    std::int64_t epoch = 0;

    bool operator==(const SavedAt&) const = default;
  };
  /// The last save, and whether the parent holds the newest state. A Healer sets both back to an earlier state.
  const std::optional<SavedAt>& saved() const { return saved_; }
  void restore_saved(const std::optional<SavedAt>& saved) { saved_ = saved; }
  bool is_held() const { return is_held_; }
  void set_held(bool is_held) { is_held_ = is_held; }
  std::vector<SavedTensor> tensors_of_extensions() const;
  /// Gives each extension its own tensors among `tensors`, and each listener its own `numbers`.
  void restore_extensions(const std::map<std::string, at::Tensor>& tensors);
  void restore_listeners(const std::map<std::string, double>& numbers);

 private:
  TrainingState restore(const std::filesystem::path& snapshot);
  void require_same_steps(const TrainingState& state, const std::filesystem::path& snapshot) const;
  void restore_participants(const TrainingState& state);
  void restore_extensions(const std::filesystem::path& snapshot);
  std::optional<std::string> newest_for_rollback() const;
  void restore_sums(TrainingState& state);
  SnapshotContent content(TrainingState state) const;
  std::optional<SnapshotContent> gathered(const TrainingState& own);
  void warn_of_failed_hold();
  std::optional<SnapshotWritten> event_of(const std::optional<SaveEnd>& end);
  void restore_compression(const std::filesystem::path& snapshot);

  TrainedModel& model_;
  const TrainingData& data_;
  LossCounter& losses_;
  const Participants& participants_;
  const SnapshotOptions& options_;
  std::optional<SavedAt> saved_;
  std::optional<BackgroundSave> writer_;  ///< On rank 0, if there is a folder.
  std::optional<BackgroundSave> holder_;  ///< On rank 0, if its parent holds the newest state.
  bool warned_of_hold_ = false;
  bool compresses_ = false;
  std::optional<std::int64_t> rolled_back_to_;  ///< The step of that snapshot.
  int rollbacks_ = 0;                           ///< To that snapshot, one after the other.
  bool is_held_ = false;                        ///< True on every rank if rank 0 has a holder.
  double blocked_s_ = 0;                        ///< Time of the last save(), in seconds.
  bool stops_on_nonfinite_ = true;
};

}  // namespace lockstep
