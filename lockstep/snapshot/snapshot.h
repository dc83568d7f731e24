// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Writes and restores the state of a training, for a loop of your own. Trainer does this by itself.
///
///     lockstep::TrainingState state{.step = 120, .epoch = 3};
///     if (world.is_main()) {
///       lockstep::write_snapshot("snapshots", lockstep::content_of(*net, optimizer, state), {.keep = 3});
///     }
///     if (const auto last = lockstep::newest_whole_snapshot("snapshots", {})) {
///       state = lockstep::restore_snapshot(last->path, *net, optimizer);
///     }

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep {

struct SnapshotParts;

/// A hash of the (epoch, sample id) pairs trained on, in any order. Equal multisets have equal hashes, whatever the
/// ranks, batches and restarts.
struct SampleDigest {
  std::array<std::uint64_t, 2> sums{};

  void add(std::int64_t epoch, std::int64_t id);
  /// Returns 32 hexadecimal digits.
  std::string hex() const;
};

/// The sum of a metric's values over samples, and the number of samples.
struct MetricSum {
  double total = 0;
  std::int64_t samples = 0;
};
using MetricSums = std::map<std::string, MetricSum>;

/// One rank's part of the sums that a training keeps. The last bit of a sum depends on which rank added what.
struct RankSums {
  MetricSum loss;          ///< Of the current epoch.
  MetricSum since_logged;  ///< Losses since the last logged step.
  MetricSums logged;       ///< Metrics of the current epoch's training steps.
};

/// All numbers that an exact resume needs, apart from the tensors. They are the same on every rank.
struct TrainingState {
  std::int64_t step = 0;     ///< Optimizer updates done.
  std::int64_t epoch = 0;    ///< Epochs completed, that is trained and, if due, validated.
  std::int64_t place = 0;    ///< Samples of the current epoch that all ranks trained on.
  std::int64_t samples = 0;  ///< Samples that all ranks trained on in the whole run.
  SampleDigest digest;
  double loss_sum = 0;  ///< Sum over the current epoch's samples, all ranks.
  std::int64_t loss_samples = 0;
  MetricSums logged;                      ///< Metrics of the current epoch's training steps, all ranks.
  std::vector<RankSums> rank_sums;        ///< Each rank's part of these sums. Empty if they are not known.
  std::map<std::string, double> metrics;  ///< The last value of each metric.
  std::map<std::string, double> numbers;  ///< State of scheduler, scaler and listeners, such as "scheduler.best".
  std::vector<std::vector<std::size_t>> bucket_layout;  ///< Empty if the run had one rank.
  int world = 1;                                        ///< Number of ranks that the layout was made for.
  std::uint64_t seed = 0;
  std::int64_t data_size = 0;  ///< Samples of the training set.
};

/// A tensor and the name under which it is saved. It is contiguous and on the CPU, unless it is shared.
struct SavedTensor {
  std::string name;
  at::Tensor tensor;
  bool is_shared = false;  ///< It is the training's own memory, perhaps a device's, which the next update changes.
};

/// The content of a snapshot, in its own memory. It may be written while training continues.
struct SnapshotContent {
  std::vector<SavedTensor> model;
  std::vector<SavedTensor> optimizer;
  std::string optimizer_settings;       ///< The text of optimizer_settings().
  std::vector<SavedTensor> extensions;  ///< Tensors of extensions, such as averaged weights. No file if empty.
  std::string data;                     ///< Facts about the training data as JSON. Not saved if empty.
  TrainingState state;
};

/// Copies weights, buffers and optimizer state, and adds the tensors of extensions.
///
/// Throws: Error(kUsage) if a snapshot cannot hold the state of this kind of optimizer.
SnapshotContent content_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer, TrainingState state,
                           std::vector<SavedTensor> extensions = {});

/// Makes the same content without copying the tensors that only an update of the weights changes: it shares them. These
/// are parameters, optimizer state and tensors of extensions, if they are contiguous, or dense and on a device.
/// BackgroundSave uses it and copies them.
SnapshotContent shared_content_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                                  TrainingState state, std::vector<SavedTensor> extensions = {});

/// Returns the content of a snapshot's files, in memory that belongs to the content.
SnapshotParts snapshot_parts(const SnapshotContent& content);

struct WriteOptions {
  std::int64_t keep = 0;               ///< Number of newest snapshots to keep. 0 for all.
  std::chrono::seconds keep_every{0};  ///< Of older ones, keep one for each such time. 0 for none.
  bool is_best = false;                ///< Make `best` point to it.
};

/// A snapshot that was written, and the bytes of its files.
struct WrittenSnapshot {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Writes `snapshots/step-NNNNNNNNNN/` and removes old snapshots. One rank of one program calls it, and
/// lock_snapshots() keeps others out. Old snapshots that cannot be removed are a warning on standard error.
///
/// Blocks: until the snapshot is on disk. Throws: Error(kIo) if the snapshot cannot be written. Snapshots saved before
///         are unchanged.
WrittenSnapshot write_snapshot(const std::filesystem::path& snapshots, const SnapshotContent& content,
                               const WriteOptions& options = {});

/// Restores weights, buffers and optimizer state from a snapshot.
///
/// Throws: Error(kIo) if a file cannot be read; Error(kData) naming the tensor that is missing, left over or of another
///         shape, with both shapes.
TrainingState restore_snapshot(const std::filesystem::path& snapshot, torch::nn::Module& module,
                               torch::optim::Optimizer& optimizer);

/// Returns the numbers of a training's state as text, in the form of a snapshot's file.
std::string state_text(const TrainingState& state);

/// Reads a snapshot's numbers from the text of its file. `file` names it in errors. Throws: Error(kData).
TrainingState parsed_state(const std::string& text, const std::filesystem::path& file);

/// Restores weights and buffers from a snapshot. If the run averaged its weights, they are the averages, which its own
/// validation used. Otherwise they are the last step's. If a signal stopped the run before the pass for BatchNorm
/// statistics, averages lack these and are not used. Returns true if the weights are averaged.
///
/// Throws: as restore_snapshot().
bool restore_weights(const std::filesystem::path& snapshot, torch::nn::Module& module);

/// Returns why the state of a snapshot cannot be read, such as a damaged file or another schema. Returns nothing if the
/// state can be read. newest_whole_snapshot() calls this, and then takes the snapshot before.
std::optional<std::string> state_fault(const std::filesystem::path& snapshot);

/// Returns SnapshotContent::data of a snapshot. Empty if the snapshot has none.
///
/// Throws: Error(kIo), Error(kData).
std::string saved_data(const std::filesystem::path& snapshot);

/// Returns the tensors that extensions saved, by name. Empty if the snapshot has no tensors of extensions.
///
/// Throws: Error(kIo), Error(kData).
std::map<std::string, at::Tensor> extension_tensors(const std::filesystem::path& snapshot);

/// Reads one tensor of extensions after the other and passes each to `take`, so that memory need not hold all of them.
///
/// Throws: Error(kIo), Error(kData).
void for_each_extension_tensor(const std::filesystem::path& snapshot,
                               const std::function<void(const std::string& name, const at::Tensor&)>& take);

/// Returns the XXH3-128 of name, dtype, shape and bytes of every parameter and buffer, in their order.
std::string weights_digest(const torch::nn::Module& module);

}  // namespace lockstep
