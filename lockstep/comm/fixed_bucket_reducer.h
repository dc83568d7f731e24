// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <vector>

#include "lockstep/comm/compression_hook.h"
#include "lockstep/comm/data_parallel.h"

namespace lockstep {

/// The reducer wants to own its hook, but DistributedDataParallel owns it already. So this small object passes each
/// call on.
class BorrowedHook final : public c10d::CommHookInterface {
 public:
  explicit BorrowedHook(CompressionHook& hook) : hook_(hook) {}
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override { return hook_.runHook(bucket); }
  at::Tensor parseHookResult(const c10::IValue& result) override { return hook_.parseHookResult(result); }

 private:
  CompressionHook& hook_;
};

/// A reducer whose buckets are fixed once. They come from the caller's snapshot, or from the order of the first step's
/// gradients.
class FixedBucketReducer : public c10d::Reducer {
 public:
  using Reducer::Reducer;

  /// `hook` must outlive this object.
  void send_by(CompressionHook& hook) { register_comm_hook(std::make_unique<BorrowedHook>(hook)); }
  void freeze_buckets() { has_rebuilt_bucket_ = true; }
  /// Turns off the reducer's own timing. It measures the first ten steps, and some later ones, with device events,
  /// which a recording of a step would include.
  void disable_timing() { set_ddp_runtime_logging_sample_rate(std::numeric_limits<int>::max()); }
  bool all_buckets_were_ready() const { return static_cast<std::size_t>(num_buckets_ready_) == buckets_.size(); }

  BucketLayout layout() const {
    BucketLayout out;
    for (const auto& bucket : buckets_) out.push_back(bucket.variable_indices);
    return out;
  }
};

/// The number of the constructor's arguments depends on LibTorch's version. It is 9 in 2.7 and 12 in 2.11.
template <typename R, typename... Args>
std::unique_ptr<R> made_reducer(Args... args) {
  const std::vector<std::int64_t> no_caps;
  if constexpr (std::is_constructible_v<R, Args..., bool, bool, std::vector<std::int64_t>>) {
    return std::make_unique<R>(std::move(args)..., false, false, no_caps);
  } else if constexpr (std::is_constructible_v<R, Args..., bool, bool>) {
    return std::make_unique<R>(std::move(args)..., false, false);
  } else if constexpr (std::is_constructible_v<R, Args..., bool>) {
    return std::make_unique<R>(std::move(args)..., false);
  } else {
    return std::make_unique<R>(std::move(args)...);
  }
}

/// True if a snapshot's layout fits these tensors: it has each tensor once, and each bucket has one type. If options of
/// the run have changed what is sent, the layout cannot be used.
inline bool fits(const BucketLayout& layout, const std::vector<at::Tensor>& tensors) {
  std::vector<bool> seen(tensors.size(), false);
  for (const auto& bucket : layout) {
    for (const auto place : bucket) {
      if (place >= tensors.size() || seen[place]) return false;
      seen[place] = true;
      if (tensors[place].scalar_type() != tensors[bucket.front()].scalar_type()) return false;
    }
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end();
}

}  // namespace lockstep
