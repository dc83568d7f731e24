// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

/// Counts operations and memory of this thread's work, and of the backward passes that it starts.
class StepCost final : public c10::MemoryReportingInfoBase {
 public:
  /// Counts matrix products, convolutions and attention. A multiplication and an addition count as two operations.
  double flops() const { return flops_; }
  /// Returns the bytes that were allocated since counting began and are not freed yet.
  std::int64_t live_bytes() const { return live_bytes_; }

  /// Counts operations that call no other and write a tensor, since a device starts a kernel for each.
  std::int64_t kernels() const { return kernels_; }

  /// Returns the number of those kernels whose operations flops() counts.
  std::int64_t products() const { return products_; }

  void add_flops(double flops) {
    flops_ += flops;
    if (flops > 0) ++products_;
  }
  /// Call it when an operation begins. end_operation() ends it. Operations are nested.
  void begin_operation() { calls_others_.push_back(false); }
  void end_operation(bool writes) {
    if (calls_others_.empty()) return;  // It began before counting did.
    if (writes && !calls_others_.back()) ++kernels_;
    calls_others_.pop_back();
    if (!calls_others_.empty()) calls_others_.back() = true;
  }
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    live_bytes_ += bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  double flops_ = 0;
  std::int64_t kernels_ = 0;
  std::int64_t products_ = 0;
  std::vector<bool> calls_others_;
  std::int64_t live_bytes_ = 0;
};

/// Counts while it lives.
class StepCostScope {
 public:
  StepCostScope();
  ~StepCostScope();
  StepCostScope(const StepCostScope&) = delete;
  StepCostScope& operator=(const StepCostScope&) = delete;

  const StepCost& cost() const { return *cost_; }

 private:
  std::shared_ptr<StepCost> cost_;
  c10::DebugInfoGuard guard_;
  at::CallbackHandle callback_;
};

}  // namespace lockstep
