// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/device/streams.h"
#include "lockstep/train/device_loss.h"
#include "lockstep/train/graph_plan.h"
#include "lockstep/train/optim/device_update.h"
#include "lockstep/train/replicas.h"
#include "lockstep/train/synced_statistics.h"
#include "lockstep/train/trainer.h"

namespace lockstep {

/// Who hears of a training and who takes part in it.
struct Participants {
  const std::vector<Listener*>& listeners;
  const std::vector<Extension*>& extensions;
};

/// One training, from its start or a snapshot to its end: the loop that Trainer::fit runs. Not for users.
///
/// fit_loop.cc tells its story; fit_loop_step.cc, fit_loop_validation.cc and fit_loop_snapshot.cc hold the parts.
class FitLoop {
 public:
  FitLoop(const TrainerOptions& options, Participants participants, Module& module, DataModule& data, Group& group);
  FitLoop(const FitLoop&) = delete;
  FitLoop& operator=(const FitLoop&) = delete;

  /// Collective: yes.
  FitResult run();

 private:
  /// Batches that make one optimizer step.
  struct Work {
    std::vector<Batch> batches;
    std::int64_t global_samples = 0;
  };

  /// A step may be saved twice: before its epoch is closed, and after.
  struct SavedAt {
    std::int64_t step = 0;
    std::int64_t epoch = 0;

    bool operator==(const SavedAt&) const = default;
  };

  using Metrics = std::map<std::string, double>;

  // The story.
  void take_data(DataModule& data);
  void start();
  void announce();
  std::map<std::string, std::string> facts() const;
  TrainingPlan plan() const;
  bool is_done() const;
  bool is_epoch_over() const;
  void train_epoch();
  void end_epoch();
  FitResult finish();
  template <typename Event>
  void tell(const Event& event);

  // A step.
  Work next_work();
  Work read_work();
  void step(const Work& work);
  void step_eagerly(const Work& work);
  void backward(const Batch& batch, std::int64_t index, std::int64_t global_samples);
  template <typename Work>
  void run_model(const Batch& batch, Work&& work);
  at::Tensor loss_of(const Batch& batch, std::int64_t index);
  at::Tensor mean_loss(const Batch& runs);
  std::uint64_t step_seed(std::int64_t step, std::int64_t index) const;
  void seed_generators(std::uint64_t seed) const;
  void seed_step(std::int64_t index) const;
  void seed_device(std::int64_t index) const;
  void count_loss(const at::Tensor& mean, std::int64_t samples);
  void count_loss(double sum, std::int64_t samples);
  const Batch* runs_for(const Batch& batch);
  void update();
  void raise_signals();
  double seconds_of_run() const;
  void after_step(const Work& work);
  void log_loss(StepEnded& event);
  double mean_over_ranks(double sum, std::int64_t count);
  void note_loss(double loss, std::int64_t step);
  void require_finite(double loss_sum);

  // What a device needs besides. fit_loop_device.cc; recordings: fit_loop_graph.cc.
  void prepare_device();
  void keep_samples(Loader& loader, const std::string& part);
  std::string why_not_kept(const Loader& loader) const;
  void read_ahead();
  void settle_loss();
  void set_loss();
  void await_device();
  [[noreturn]] void explain_shortage(const Work& work);
  std::optional<std::int64_t> peak_of(const Batch& batch, std::int64_t samples);
  void plan_graph();
  bool step_by_graph(const Work& work);
  bool fits_graph(const Work& work) const;
  void record(const Work& work);
  bool recorded(const Work& work, std::string& reason);
  void uncount_recorded();
  void replay(const Work& work);
  void decide_graph();

  // Validation.
  bool is_due_at_epochs_end(std::int64_t every) const;
  bool validate(const Metrics& logged);
  bool is_stop_agreed();
  bool recompute_statistics(const std::function<bool()>& is_stopped);
  void refresh_statistics();
  bool is_best(const ValidationEnded& event);
  std::string agreed_reason();

  // Snapshots.
  DataParallelOptions resume();
  void restore_participants(const std::filesystem::path& snapshot);
  void restore_compression();
  void save();
  TrainingState state_of_all_ranks();
  std::vector<SavedTensor> tensors_besides();

  const TrainerOptions& options_;
  Participants participants_;
  Module& module_;
  Group& group_;
  std::unique_ptr<Loader> train_;
  std::unique_ptr<Loader> validation_;
  std::string data_schema_;  ///< As JSON; empty if the data module has none.
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<LossScaler> scaler_;          ///< For fp16 alone.
  std::optional<SyncedStatistics> statistics_;  ///< If BatchNorm is synchronised.
  std::unique_ptr<CopyStream> copies_;          ///< Null on a CPU.
  std::optional<Work> ahead_;                   ///< The next step's, on its way to the device.
  std::optional<DeviceLoss> device_loss_;       ///< Where losses stay on the device.
  DeviceUpdate* device_update_ = nullptr;       ///< The optimizer, where its update needs nothing of the host.
  std::optional<GraphPlan> graph_plan_;         ///< On a device that records.
  std::unique_ptr<StepGraph> graph_;            ///< Once recorded.
  Work recorded_;                               ///< What the recording reads from: filled anew for each replay.
  bool is_recording_ = false;
  bool is_validation_kept_ = false;           ///< Or was found not to be worth it.
  std::int64_t kept_bytes_ = 0;               ///< Of samples on the device.
  bool is_device_busy_ = false;               ///< Steps were given to it that nobody has waited for.
  std::map<std::string, std::string> found_;  ///< For RunEnded.
  std::optional<Batch> stand_in_;
  std::vector<at::Tensor> trained_;
  std::unique_ptr<DistributedDataParallel> parallel_;
  std::unique_ptr<Replicas> replicas_;  ///< For strategy "dp" alone.

  TrainingState state_;                  ///< Sums in it are this rank's part; save() and finish() add them up.
  std::int64_t epoch_samples_ = 0;       ///< Of all ranks, as limited.
  std::int64_t validation_samples_ = 0;  ///< The same.
  bool is_best_ = false;                 ///< The validation that ended last.
  std::optional<SavedAt> saved_at_;
  std::int64_t first_step_ = 0;
  std::int64_t first_samples_ = 0;
  double logged_loss_sum_ = 0;  ///< Since the last logged step, this rank; on a device settle_loss() brings it.
  std::int64_t logged_loss_samples_ = 0;
  /// The first loss that was not finite, and the step that gave it or was the first to be told it.
  struct LostLoss {
    std::int64_t step = 0;
    double loss = 0;
  };
  std::optional<LostLoss> lost_;  ///< This rank's.
  std::string stop_reason_;       ///< Why this rank wants to stop; empty where it does not.
  std::string stopped_by_;
  double seconds_before_ = 0;  ///< Of earlier starts, as the snapshot has it; counted if there is a time limit.
  Clock::time_point started_;
  Clock::time_point last_step_;
  Clock::time_point last_save_;
  double seconds_in_steps_ = 0;
  std::optional<double> time_to_first_step_s_;
};

template <typename Event>
void FitLoop::tell(const Event& event) {
  for (auto* listener : participants_.listeners) {
    if (listener->on(event) == Verdict::kStop && stop_reason_.empty()) stop_reason_ = "callback: " + listener->name();
  }
}

}  // namespace lockstep
