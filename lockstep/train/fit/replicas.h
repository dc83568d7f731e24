// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/train/module.h"
#include "lockstep/train/precision.h"

namespace lockstep {

/// Copies of a module in threads of one process, each with a part of every batch. This is strategy "dp", as
/// DataParallel in Python. Use it only for comparison: one process decodes, logs and updates for all copies, so
/// separate ranks ("ddp") are faster.
///
/// All copies share the first copy's weights. At the start of each batch the other copies get the first copy's buffers.
/// Their own changes to buffers are dropped. On a CPU the copies draw random numbers from one generator in no fixed
/// order, so a model with dropout does not give the same bits twice.
class Replicas {
 public:
  /// `first` must outlive this object. The other copies are made by its replica().
  Replicas(Module& first, std::int64_t count, Precision precision);
  ~Replicas();
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  /// Runs forward and backward. The first copy gets the gradients of the mean loss over `global_samples`, of which this
  /// batch holds some. It also gets the metrics that all copies have logged. `scaler` may be null.
  ///
  /// Returns the sum of the samples' losses. Throws: the modules' errors.
  double run(const Batch& batch, std::int64_t global_samples, const LossScaler* scaler);

 private:
  struct Part {
    Module* module = nullptr;
    std::unique_ptr<Module> owned;
    std::vector<at::Tensor> parameters;  ///< A tied one once for each of its names.
    std::vector<std::size_t> distinct;   ///< Places in `parameters`, the first of each tensor.
    std::vector<at::Tensor> buffers;
    Batch batch;
    double loss_sum = 0;
    std::exception_ptr failure;
  };

  void share_weights();
  void run_part(Part& part) const;
  void add_gradients();

  std::vector<Part> parts_;
  Precision precision_;
  int threads_each_;
  std::int64_t global_samples_ = 0;
  const LossScaler* scaler_ = nullptr;
  bool is_ending_ = false;
  std::barrier<> start_;
  std::barrier<> done_;
  std::vector<std::jthread> threads_;  ///< One for each but the first, which runs in the caller's.
};

}  // namespace lockstep
