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

/// Sends the reducer's buckets. For sources of comm/ only.
///
/// The first half starts as soon as the bucket is full and runs beside backward. The second, which may send once more,
/// runs when backward is over, bucket by bucket in the same order on every rank.
class CompressionHook : public c10d::CommHookInterface {
 public:
  explicit CompressionHook(c10::intrusive_ptr<c10d::ProcessGroup> process) : process_(std::move(process)) {}

  /// Sends a bucket that holds this tensor without compression.
  void keep_whole(at::Tensor tensor) { whole_ = std::move(tensor); }

  /// Before each backward that averages.
  virtual void begin_step() {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
  at::Tensor parseHookResult(const c10::IValue& result) override;

  /// Returns this rank's state for an exact resume. The tensors are those in use.
  virtual CompressionState state() { return {}; }
  /// Takes back a state of this rank, before the first backward.
  virtual void restore(const CompressionState& /*state*/) {}

 protected:
  /// The second half, which takes the sums over ranks. After it the bucket's gradients are in place.
  using Finish = std::function<void(const at::Tensor& sums)>;

  /// Compresses a bucket. Returns the tensor to sum over ranks, and the second half.
  virtual std::pair<at::Tensor, Finish> compressed(c10d::GradBucket& bucket) = 0;
  /// The bucket as it is.
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

/// `parameters` are those that the reducer was given, by their place. Null for kNone.
///
/// Throws: Error(kUsage) for a setting out of range.
std::unique_ptr<CompressionHook> make_compression_hook(const CompressionOptions& options,
                                                       c10::intrusive_ptr<c10d::ProcessGroup> process,
                                                       const std::vector<at::Tensor>& parameters);

}  // namespace lockstep
