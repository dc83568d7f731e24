// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The events of a run, and the interface of callbacks that hear them.
///
///     struct StopWhenGood : lockstep::Listener {
///       using Listener::on;
///       std::string name() const override { return "stop when good"; }
///       lockstep::Verdict on(const lockstep::ValidationEnded& event) override {
///         const bool is_good = event.metrics.at("val_accuracy") > 0.99;
///         return is_good ? lockstep::Verdict::kStop : lockstep::Verdict::kContinue;
///       }
///     };

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Progress, metrics, reports, snapshots and callbacks all hear the same six events of a run. Events hold plain numbers
/// and text, never a tensor. Steps count optimizer updates from 1. Epochs count from 0.

struct RunStarted {
  std::string name{};  ///< The recipe's name.
  std::filesystem::path run_dir{};
  int world = 1;
  std::int64_t epochs = 0;  ///< Planned epochs. 0 if only max_steps or max_time ends the run.
  std::int64_t steps_per_epoch = 0;
  std::int64_t steps_total = 0;  ///< Planned steps. 0 if unknown.
  std::int64_t batch = 0;        ///< Samples per rank in a full global batch.
  std::int64_t global_batch = 0;
  std::int64_t parameters = 0;  ///< Number of trained parameters.
  std::int64_t first_step = 0;  ///< Steps done before. 0 for a new run.
  std::int64_t first_epoch =
      0;  ///< Epochs completed before. Later ones that the run had validated are validated again.
  std::optional<std::filesystem::path> resumed_from{};
  std::map<std::string, std::string> facts{};  ///< device, precision, torch, host…, for the record.
};

struct EpochStarted {
  std::int64_t epoch = 0;
  std::int64_t steps = 0;       ///< Steps of this epoch.
  std::int64_t first_step = 0;  ///< Steps of this epoch done before, if a run resumes within it.
};

struct StepEnded {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;  ///< From 1.
  std::int64_t samples = 0;        ///< Samples of all ranks in this step.
  double seconds = 0;              ///< Time since the last step, validation or snapshot ended, on this rank.
  double learning_rate = 0;        ///< Learning rate of the first parameter group.
  std::optional<double> loss{};    ///< Mean over all ranks' samples since the last logged step. Only in logged steps.
};

struct ValidationEnded {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  double train_loss = 0;                    ///< The epoch's mean over the samples of all ranks.
  std::map<std::string, double> metrics{};  ///< Exact over all ranks, such as "val_loss" and "val_accuracy".
};

struct SnapshotWritten {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::filesystem::path path{};
  std::uint64_t bytes = 0;
  double seconds = 0;
};

struct RunEnded {
  std::int64_t step = 0;
  std::int64_t epochs = 0;   ///< Epochs completed.
  std::int64_t samples = 0;  ///< Samples that all ranks trained on, earlier parts of the run included.
  std::string stopped_by{};  ///< "max_epochs", "max_steps", "max_time", "signal", "request", "job_end",
                             ///< "callback: NAME"
  double seconds = 0;
  double samples_per_second = 0;
  double time_to_first_step_s = 0;
  std::optional<std::int64_t> device_peak_bytes{};  ///< Largest number of bytes that rank 0's tensors held. Absent on a
                                                    ///< CPU.
  std::map<std::string, std::string> facts{};       ///< Facts found during the run, such as graph.
  std::map<std::string, double> metrics{};          ///< The last value of each metric, such as "train_loss" and
                                                    ///< "val_loss".
};

/// A listener's answer to continue the run or to stop it. Ranks agree on a stop, so one rank's answer is enough.
enum class Verdict { kContinue, kStop };

/// Hears the events of a run. It answers kStop to end the run after this step, with a snapshot.
///
/// Threads: called on the thread that trains; a slow listener slows the run.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Returns the name in RunEnded::stopped_by if this listener stops the run.
  virtual std::string name() const = 0;
  virtual Verdict on(const RunStarted&) { return Verdict::kContinue; }
  virtual Verdict on(const EpochStarted&) { return Verdict::kContinue; }
  virtual Verdict on(const StepEnded&) { return Verdict::kContinue; }
  virtual Verdict on(const ValidationEnded&) { return Verdict::kContinue; }
  virtual Verdict on(const SnapshotWritten&) { return Verdict::kContinue; }
  virtual Verdict on(const RunEnded&) { return Verdict::kContinue; }

  /// Returns the metric that the listener needs to decide, such as "val_loss". Empty if it needs none. A training that
  /// will not give that metric ends before its first step.
  virtual std::string monitor() const { return {}; }

  /// Returns the numbers to keep in a snapshot, so that a resumed run decides like an uninterrupted one. They must be
  /// finite.
  virtual std::map<std::string, double> state() const { return {}; }
  virtual void restore(const std::map<std::string, double>&) {}
};

}  // namespace lockstep
