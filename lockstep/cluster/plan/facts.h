// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A tensor that is trained.
struct PlanGradient {
  double bytes = 0;
  double ready = 1;  ///< Share of the backward pass after which its gradient is there.
};

/// The kernels that a device runs one after the other in a pass.
struct PassKernels {
  double all = 0;       ///< One by one. 0 if they were not counted.
  double products = 0;  ///< Those of them that are matrix products, convolutions or attention.
};

/// The measured cost of one batch of one rank.
struct BatchCost {
  std::int64_t samples = 0;
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  /// The time that averaging gradients among the measured ranks adds to a step. Absent if it was not measured.
  std::optional<double> averaging_s{};
  double spread = 0;  ///< Standard deviation of a step over its mean.
  double flops = 0;   ///< Of matrix products and convolutions, both passes.
  double activation_bytes = 0;
  PassKernels forward{};
  PassKernels backward{};
};

/// An all-reduce as it was measured.
struct ReduceCost {
  double bytes = 0;
  double seconds = 0;
};

/// The facts about a training that `plan` needs. `lockstep-train describe` measured them on one machine.
struct TrainingFacts {
  std::string model;
  std::string precision;
  std::string device;
  int ranks = 1;    ///< That were measured side by side.
  int threads = 1;  ///< Of each.
  int cores = 1;    ///< Of the machine.
  bool is_timed = false;
  std::int64_t parameters = 0;
  double weight_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  double buffer_bytes = 0;
  std::vector<PlanGradient> gradients;  ///< In the order of the module's parameters.
  std::int64_t train_samples = 0;
  std::int64_t validation_samples = 0;
  double read_s = 0;                ///< To read and transform one sample on one thread.
  int workers = 2;                  ///< Workers of each rank's loader. With 0 the training's own thread reads, before a
                                    ///< step.
  double start_s = 0;               ///< From a process's start until it can take its first step.
  std::vector<BatchCost> batches;   ///< By rising size, one at least.
  std::vector<ReduceCost> reduces;  ///< Among those ranks, by rising size. Empty for one rank.
};

/// Parses the last line of `text`, which is one JSON object. `from` names it in errors.
///
/// Throws: Error(kData) if the line is not such an object, or lacks a value.
TrainingFacts facts_of_json(std::string_view text, const std::string& from);

/// Returns the cost of a batch of `samples`, by linear interpolation between measured batches. Never less than zero.
BatchCost cost_at(const TrainingFacts& facts, double samples);

}  // namespace lockstep
