// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/train/trainer.h"

namespace lockstep {

/// One training, from its start or a snapshot to its end: the loop that Trainer::fit runs. Not for users.
class FitLoop {
 public:
  FitLoop(const TrainerOptions& options, const std::vector<Listener*>& listeners, Module& module, DataModule& data,
          Group& group);

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

  void start();
  std::map<std::string, std::string> facts() const;
  bool is_done() const;
  bool is_epoch_over() const;
  void train_epoch();
  Work next_work();
  void step(const Work& work);
  void after_step(const Work& work);
  void log_loss(StepEnded& event);
  void end_epoch();
  bool validate(const std::map<std::string, double>& logged);
  bool validate_batches();
  void save();
  double mean_over_ranks(double sum, std::int64_t count);
  TrainingState state_of_all_ranks();
  std::string agreed_reason();
  FitResult finish();

  void raise_signals();
  bool is_due_at_epochs_end(std::int64_t every) const;
  template <typename Event>
  void tell(const Event& event);

  const TrainerOptions& options_;
  const std::vector<Listener*>& listeners_;
  Module& module_;
  Group& group_;
  std::unique_ptr<Loader> train_;
  std::unique_ptr<Loader> validation_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<at::Tensor> trained_;
  std::unique_ptr<DistributedDataParallel> parallel_;

  TrainingState state_;  ///< Sums in it are this rank's part; save() and finish() add them up.
  std::int64_t epoch_samples_ = 0;
  std::optional<SavedAt> saved_at_;
  std::int64_t first_step_ = 0;
  std::int64_t first_samples_ = 0;
  double logged_loss_sum_ = 0;  ///< Since the last logged step, this rank.
  std::int64_t logged_loss_samples_ = 0;
  std::string stop_wish_;  ///< Why this rank wants to stop; empty where it does not.
  std::string stopped_by_;
  Clock::time_point started_;
  Clock::time_point last_step_;
  Clock::time_point last_save_;
  double seconds_in_steps_ = 0;
  std::optional<double> time_to_first_step_s_;
};

template <typename Event>
void FitLoop::tell(const Event& event) {
  for (auto* listener : listeners_) {
    if (listener->on(event) == Verdict::kStop && stop_wish_.empty()) stop_wish_ = "callback: " + listener->name();
  }
}

}  // namespace lockstep
