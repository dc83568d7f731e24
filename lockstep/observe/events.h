// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The six events of a run, in the one stream that progress, metrics, report, snapshots and callbacks listen to. Plain
/// numbers and text: a listener never sees a tensor. Steps count optimizer updates from 1; epochs count from 0.

struct RunStarted {
  std::string name{};  ///< The recipe's name.
  std::filesystem::path run_dir{};
  int world = 1;
  std::int64_t epochs = 0;  ///< As planned; 0 where only max_steps or max_time ends the run.
  std::int64_t steps_per_epoch = 0;
  std::int64_t steps_total = 0;  ///< As planned; 0 where unknown.
  std::int64_t batch = 0;        ///< Per rank, of a full global batch.
  std::int64_t global_batch = 0;
  std::int64_t parameters = 0;  ///< Numbers that are trained.
  std::int64_t first_step = 0;  ///< Steps done before: 0 for a fresh run.
  std::optional<std::filesystem::path> resumed_from{};
  std::map<std::string, std::string> facts{};  ///< device, precision, torch, host…: for the record.
};

struct EpochStarted {
  std::int64_t epoch = 0;
  std::int64_t steps = 0;       ///< Steps of this epoch.
  std::int64_t first_step = 0;  ///< Steps of this epoch done before, where a run resumes within it.
};

struct StepEnded {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;  ///< From 1.
  std::int64_t samples = 0;        ///< Of all ranks, in this step.
  double seconds = 0;              ///< Since the last step, validation or snapshot ended, on this rank.
  double learning_rate = 0;        ///< Of the first parameter group.
  std::optional<double> loss{};    ///< Mean over the samples since the last logged step, all ranks; only where logged.
};

struct ValidationEnded {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  double train_loss = 0;                    ///< The epoch's mean over samples, all ranks.
  std::map<std::string, double> metrics{};  ///< Exact over all ranks: "val_loss", "val_accuracy"…
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
  std::int64_t samples = 0;  ///< Trained on, all ranks, earlier parts of the run included.
  std::string stopped_by{};  ///< "max_epochs", "max_steps", "max_time", "signal", "callback: NAME"
  double seconds = 0;
  double samples_per_second = 0;
  double time_to_first_step_s = 0;
  std::optional<std::int64_t> device_peak_bytes{};  ///< The most that rank 0's tensors held; absent on a CPU.
  std::map<std::string, std::string> facts{};       ///< What was found out on the way: graph…
  std::map<std::string, double> metrics{};          ///< The last of each: "train_loss", "val_loss"…
};

/// What a listener answers: whether the run goes on. Ranks agree on a stop, so one rank's answer is enough.
enum class Verdict { kContinue, kStop };

/// Hears the events of a run. Answers kStop to end it after this step, with a snapshot.
///
/// Threads: called on the thread that trains; a slow listener slows the run.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Named in RunEnded::stopped_by where this listener stopped the run.
  virtual std::string name() const = 0;
  virtual Verdict on(const RunStarted&) { return Verdict::kContinue; }
  virtual Verdict on(const EpochStarted&) { return Verdict::kContinue; }
  virtual Verdict on(const StepEnded&) { return Verdict::kContinue; }
  virtual Verdict on(const ValidationEnded&) { return Verdict::kContinue; }
  virtual Verdict on(const SnapshotWritten&) { return Verdict::kContinue; }
  virtual Verdict on(const RunEnded&) { return Verdict::kContinue; }

  /// What a snapshot keeps of it, so that a resumed run decides as one that was left alone; finite numbers only.
  virtual std::map<std::string, double> state() const { return {}; }
  virtual void restore(const std::map<std::string, double>&) {}
};

}  // namespace lockstep
