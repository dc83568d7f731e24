// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Data-parallel training for your own loop. It keeps the same weights on every rank and averages gradients.
///
///     auto world = lockstep::join();
///     lockstep::DistributedDataParallel ddp(*net, world);
///     optimizer.zero_grad();
///     auto loss = torch::nn::functional::cross_entropy(net->forward(input), target);
///     ddp.backward(loss, input.size(0));  // instead of loss.backward()
///     optimizer.step();

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

/// Lists the parameters of each bucket, by their index in the module's parameters(). The last number is the control
/// tensor, which Lockstep adds. The last bit of a sum depends on the layout, so an exact resume needs that of the run
/// it continues.
using BucketLayout = std::vector<std::vector<std::size_t>>;

struct DataParallelOptions {
  double bucket_mib = 25;  ///< Gradients are averaged in buckets of at most this size, the first of at most 1.
  bool find_unused_parameters = false;  ///< Search the graph each step for parameters that the loss does not use.
  /// True if the unused parameters are the same in each step. They are then searched once, and nothing is sent for
  /// them. It cannot be combined with find_unused_parameters.
  bool static_graph = false;
  CompressionOptions compression{};
  std::optional<BucketLayout> layout{};  ///< The layout of a snapshot, used from the first step on.
  /// With several ranks a plain `loss.backward()` throws Error(kUsage), since nobody averages its gradients. If true,
  /// it is allowed, for a measurement that discards its gradients.
  bool permits_plain_backward = false;
  bool are_weights_shared = false;  ///< All ranks hold the same weights already, so nothing is checked and copied.
};

/// A flag that is averaged with the gradients, so that it needs no message of its own. One rank raises it, and all
/// ranks see it after the same step. On a device they see it one step later than on a CPU, so that the host need not
/// wait for it.
enum class Signal { kStop, kSnapshot };

/// Keeps the same weights on every rank. It averages gradients over all samples of all ranks while backward still runs.
///
/// The engine is that of Python's DistributedDataParallel (c10d::Reducer). Gradients are views of the buckets. A loop
/// may reset them with `optimizer.zero_grad()` as usual. With one rank it adds nothing to a plain backward.
///
/// Collective: the constructor, and each backward() outside no_sync().
class DistributedDataParallel {
 public:
  /// Checks that names, shapes and dtypes of parameters and buffers are the same on all ranks. Then copies the values
  /// of rank 0 to every rank. `module` and `group` must outlive this object.
  ///
  /// Throws: Error(kUsage) naming the first tensor that differs and the ranks; also if no parameter is to be trained,
  /// or if options exclude each other.
  DistributedDataParallel(torch::nn::Module& module, Group& group, DataParallelOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Adds the gradient of the mean loss over the samples of all ranks to each parameter's gradient.
  ///
  /// `loss` is this rank's mean over its `samples`. A rank without samples passes an undefined tensor and 0. If its
  /// layers communicate with other ranks, the rank must run them on a stand-in sample. It may then pass the loss of
  /// that sample, which counts nothing.
  ///
  /// Within no_sync() the samples count towards the next backward() outside of it. So accumulation, too, weighs each
  /// sample once. `global_samples` is the number of samples of all ranks, of all accumulated batches together. Passing
  /// it saves a pass over the gradients. Then pass it to each of the calls that make one step. If a parameter is in
  /// half precision, leaving it out costs one more message, before the gradients, since half precision would round a
  /// weight of n samples, or make it infinite.
  ///
  /// Shape:  loss [] or [1].
  /// Collective: yes, outside no_sync(). Blocks: until all buckets are averaged.
  /// Throws: Error(kUsage) for a loss of another shape, or naming the parameters that got no gradient; Error(kPeer) if
  ///         a rank was lost.
  void backward(const at::Tensor& loss, std::int64_t samples, std::optional<std::int64_t> global_samples = {});

  /// Sets a switch to a value, and sets it back when it is destroyed.
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
  /// While the returned object lives, backward() only accumulates on this rank.
  Held no_sync();

  /// Use this while a StepGraph records backward(). As long as the returned object lives, backward() copies nothing to
  /// the host. A step with the same number of samples must come before. Call begin_replay() and end_replay() around the
  /// end of the recording and around each replay. A replay stands for one backward() with the same samples.
  Held recording();
  void begin_replay(std::int64_t samples, std::int64_t global_samples);
  void end_replay();

  /// Raises the signal. All ranks see it with the next averaged gradients.
  /// Threads: the training thread only. A signal handler must set its own flag.
  void raise(Signal signal);
  /// True if any rank raised the signal before the last backward() outside no_sync().
  bool agreed(Signal signal) const;
  /// Returns true if `raised` is true on any rank. Use it in validation, which has no backward(). Collective: yes.
  /// Blocks: yes.
  bool agree_now(Signal signal, bool raised);

  /// Copies rank 0's buffers, such as BatchNorm's statistics, to every rank. Collective: yes.
  void broadcast_buffers();

  /// Returns the buckets' layout, for a snapshot. Empty if there is one rank.
  BucketLayout layout() const;

  /// Returns the tensors that compression keeps from step to step, for a snapshot. Rank 0 gets them in separate memory
  /// on the CPU. Empty on other ranks, and if the compression keeps no tensors. Tensors that differ between ranks have
  /// the shape [world, …], so this grows with the number of ranks.
  /// Collective: yes. Blocks: yes.
  std::map<std::string, at::Tensor> compression_state();
  /// Restores tensors that compression_state() returned, all at once or one after the other. Each rank takes its own
  /// part, or the mean over all parts if they come from another number of ranks. Call it between steps. An empty
  /// `state` drops all tensors that compression keeps. Collective: no.
  void restore_compression(const std::map<std::string, at::Tensor>& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
