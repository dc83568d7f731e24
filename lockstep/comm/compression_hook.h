// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <vector>

#include "lockstep/comm/compression_state.h"
#include "lockstep/comm/gradient_compression.h"

namespace lockstep {

/// Sends the reducer's buckets of gradients. Only sources in comm/ use this class.
///
/// The work on a bucket has two halves. The first half starts as soon as the bucket is full, and runs during backward.
/// The second half may send once more. It runs after backward, bucket by bucket, in the same order on every rank.
class CompressionHook : public c10d::CommHookInterface {
 public:
  explicit CompressionHook(c10::intrusive_ptr<c10d::ProcessGroup> process) : process_(std::move(process)) {}

  /// Sets a tensor whose bucket is sent without compression.
  void keep_whole(at::Tensor tensor) { whole_ = std::move(tensor); }

  /// Call this before each backward that averages gradients.
  virtual void begin_step() {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
  at::Tensor parseHookResult(const c10::IValue& result) override;

  /// Returns this rank's compression state, for an exact resume. The tensors are not copies.
  virtual CompressionState state() { return {}; }
  /// Restores this rank's compression state. Call it before the first backward.
  virtual void restore(const CompressionState& /*state*/) {}

 protected:
  /// The second half of the work on a bucket. It takes the sums over ranks, and puts the averaged gradients into the
  /// bucket.
  using Finish = std::function<void(const at::Tensor& sums)>;

  /// Compresses a bucket. Returns the tensor to sum over ranks, and the second half.
  virtual std::pair<at::Tensor, Finish> compressed(c10d::GradBucket& bucket) = 0;
  /// Sends the bucket without compression.
  std::pair<at::Tensor, Finish> uncompressed(c10d::GradBucket& bucket) const;

  int world() const { return process_->getSize(); }
  c10::intrusive_ptr<c10d::Work> add_up(const at::Tensor& tensor);

 private:
  struct Pending {
    at::Tensor buffer;
    Finish finish;
  };

  c10::intrusive_ptr<c10d::ProcessGroup> process_;
  at::Tensor whole_;
  std::deque<Pending> pending_;
};

/// Makes the hook for a kind of compression. `parameters` are the reducer's, in the same order. Returns null for kNone.
///
/// Throws: Error(kUsage) for a setting out of range.
std::unique_ptr<CompressionHook> make_compression_hook(const CompressionOptions& options,
                                                       c10::intrusive_ptr<c10d::ProcessGroup> process,
                                                       const std::vector<at::Tensor>& parameters);

}  // namespace lockstep
