// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/gradient_compression.h"
#include "lockstep/comm/group.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

/// Which parameters share a bucket, by their place in the module's parameters(); the last number is our own control
/// tensor. Sums depend on it in the last bit, so an exact resume needs the layout of the run that it continues.
using BucketLayout = std::vector<std::vector<std::size_t>>;

struct DataParallelOptions {
  double bucket_mib = 25;  ///< Gradients are averaged in buckets of at most this size, the first of at most 1.
  bool find_unused_parameters = false;  ///< Walk the graph each step for parameters that the loss does not depend on.
  bool static_graph =
      false;  ///< They are the same in each step: walk once, and send nothing for them. Not with the above.
  CompressionOptions compression{};
  std::optional<BucketLayout> layout{};  ///< Of a snapshot: used from the first step on.
};

/// What ranks tell each other along with the gradients, at no extra message: raised on any rank, seen by all after the
/// same step; on a device one step later than on a CPU, so that the host need not wait for it.
enum class Signal { kStop, kSnapshot };

/// The same weights on every rank, and gradients averaged over all samples of all ranks while backward still runs.
///
/// The engine is that of Python's DistributedDataParallel (c10d::Reducer). Gradients are views of the buckets; a loop
/// may reset them with `optimizer.zero_grad()` as usual. Collective: the constructor, and each backward() outside
/// no_sync(). With one rank it adds nothing to a plain backward.
class DistributedDataParallel {
 public:
  /// Checks that names, shapes and dtypes of parameters and buffers are the same on all ranks, then gives every rank
  /// those of rank 0. `module` and `group` must outlive this object.
  ///
  /// Throws: Error(kUsage) naming the first tensor that differs and the ranks, where nothing is to be trained, or where
  /// options exclude each other.
  DistributedDataParallel(torch::nn::Module& module, Group& group, DataParallelOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Adds to each parameter's gradient that of the mean loss over the samples of all ranks.
  ///
  /// `loss` is this rank's mean over its `samples`; a rank without samples passes an undefined tensor and 0 (or, where
  /// its layers talk to other ranks and so had to run, a loss that then counts nothing). Within
  /// no_sync() the samples count towards the next backward() outside of it, so that accumulation, too, weighs each
  /// sample once. Where the caller knows how many samples all ranks bring (all accumulated ones together),
  /// `global_samples` saves a pass; then each of the calls that make one step is given it.
  ///
  /// Shape:  loss [] or [1].
  /// Collective: yes, outside no_sync(). Blocks: until all buckets are averaged.
  /// Throws: Error(kUsage) for a loss of another shape, or where a parameter got no gradient: those are named;
  /// Error(kPeer).
  void backward(const at::Tensor& loss, std::int64_t samples, std::optional<std::int64_t> global_samples = {});

  /// Holds a switch in one place while it lives.
  class [[nodiscard]] Held {
   public:
    Held(bool& what, bool value) : what_(what), before_(what) { what_ = value; }
    ~Held() { what_ = before_; }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    bool& what_;
    bool before_;
  };
  /// While it lives, backward() only accumulates on this rank.
  Held no_sync();

  /// While it lives, backward() is being recorded by a StepGraph, and reads nothing back. A step of the same samples
  /// has gone before. begin_replay() and end_replay() then go around the recording's end and around each replay, which
  /// stands for one backward() of the same loss and samples.
  Held recording();
  void begin_replay(std::int64_t samples, std::int64_t global_samples);
  void end_replay();

  /// Tells all ranks with the next averaged gradients. Threads: the one that trains; a signal handler sets a flag of
  /// its own.
  void raise(Signal signal);
  /// A claim: any rank had raised it before the last backward() outside no_sync().
  bool agreed(Signal signal) const;
  /// The same without a backward, for validation. Collective: yes. Blocks: yes.
  bool agree_now(Signal signal, bool raised);

  /// Gives every rank rank 0's buffers, such as BatchNorm's statistics. Collective: yes.
  void broadcast_buffers();

  /// The layout in use, for a snapshot; empty with one rank.
  BucketLayout layout() const;

  /// What compression keeps from step to step, for a snapshot; empty where it keeps nothing. What each rank left out is
  /// averaged over ranks, also for the steps that follow here, so that no snapshot grows with the number of ranks.
  /// Collective: yes. Blocks: yes.
  std::map<std::string, at::Tensor> compression_state();
  /// Before the first backward(). Collective: no.
  void restore_compression(const std::map<std::string, at::Tensor>& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
