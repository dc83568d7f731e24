// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep {

/// An order-free hash of the (epoch, sample id) pairs trained on: equal for equal multisets, whatever ranks, batches
/// and restarts made them.
struct SampleDigest {
  std::array<std::uint64_t, 2> sums{};

  void add(std::int64_t epoch, std::int64_t id);
  /// 32 hexadecimal digits.
  std::string hex() const;
};

/// By a metric's name: the sum of its values over samples, and how many those were.
struct MetricSum {
  double total = 0;
  std::int64_t samples = 0;
};
using MetricSums = std::map<std::string, MetricSum>;

/// All that makes a resume exact, besides the tensors. One value for the whole run: the same on every rank.
struct TrainingState {
  std::int64_t step = 0;     ///< Optimizer updates done.
  std::int64_t epoch = 0;    ///< Epochs completed: trained and, where due, validated.
  std::int64_t place = 0;    ///< Samples of the current epoch trained on, all ranks.
  std::int64_t samples = 0;  ///< Trained on in the whole run, all ranks.
  SampleDigest digest;
  double loss_sum = 0;  ///< Of the current epoch, over samples, all ranks.
  std::int64_t loss_samples = 0;
  MetricSums logged;                                    ///< In training steps of the current epoch, all ranks.
  std::map<std::string, double> metrics;                ///< The last of each.
  std::map<std::string, double> numbers;                ///< Of scheduler, scaler, listeners: "scheduler.best".
  std::vector<std::vector<std::size_t>> bucket_layout;  ///< Empty where one rank wrote it.
  int world = 1;                                        ///< Ranks that the layout was made for.
  std::uint64_t seed = 0;
  std::int64_t data_size = 0;  ///< Samples of the training set.
};

/// A tensor by the name under which it is saved; on the CPU and contiguous.
struct SavedTensor {
  std::string name;
  at::Tensor tensor;
};

/// What a snapshot holds, apart from the training's own memory: it may be written while training goes on.
struct SnapshotContent {
  std::vector<SavedTensor> model;
  std::vector<SavedTensor> optimizer;
  std::string optimizer_settings;       ///< As optimizer_settings() gives them.
  std::vector<SavedTensor> extensions;  ///< Such as averaged weights; named by who keeps them. No file where empty.
  TrainingState state;
};

/// Takes a private copy of weights, buffers, optimizer state and what extensions keep.
///
/// Throws: Error(kUsage) for an optimizer whose state is of a kind unknown here.
SnapshotContent content_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer, TrainingState state,
                           std::vector<SavedTensor> extensions = {});

struct WriteOptions {
  std::int64_t keep = 0;  ///< The newest that stay; 0 for all.
  bool is_best = false;   ///< `best` points to it from now on.
};

/// Writes `snapshots/step-NNNNNNNNNN/` and prunes. One rank calls it.
///
/// Blocks: until it is on disk. Throws: Error(kIo); what was saved before is untouched.
struct WrittenSnapshot {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};
WrittenSnapshot write_snapshot(const std::filesystem::path& snapshots, const SnapshotContent& content,
                               const WriteOptions& options = {});

/// Puts a snapshot's weights, buffers and optimizer state back.
///
/// Throws: Error(kIo); Error(kData) naming the tensor that is missing, left over or of another shape, with both shapes.
TrainingState restore_snapshot(const std::filesystem::path& snapshot, torch::nn::Module& module,
                               torch::optim::Optimizer& optimizer);

/// Puts a snapshot's weights and buffers back: the averaged ones where the run kept such, as its own validation saw
/// them, else the last. Returns whether they are averaged.
///
/// Throws: Error(kIo); Error(kData) as restore_snapshot().
bool restore_weights(const std::filesystem::path& snapshot, torch::nn::Module& module);

/// What extensions saved, by name; empty where there is no such file.
///
/// Throws: Error(kIo), Error(kData).
std::map<std::string, at::Tensor> extension_tensors(const std::filesystem::path& snapshot);

/// XXH3-128 over name, dtype, shape and bytes of every parameter and buffer, in their order.
std::string weights_digest(const torch::nn::Module& module);

}  // namespace lockstep
