// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/device/device.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// All ranks of a run, met and connected. With one rank every collective is a no-op and no socket is open.
///
/// Tensors on the CPU travel through Gloo, those on this rank's device through NCCL or RCCL. Where a peer is lost, a
/// collective throws Error(kPeer). A group that is destroyed while an exception passes leaves its peers at once.
class Group {
 public:
  struct Impl;  ///< comm/group_impl.h: the c10d side.

  explicit Group(std::unique_ptr<Impl> impl);
  ~Group();
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;

  const Placement& placement() const;
  int rank() const { return placement().rank; }
  int world() const { return placement().world; }
  bool is_main() const { return rank() == 0; }
  /// True if there are other ranks, or if JoinOptions::connect_single_rank was set.
  bool is_connected() const;
  /// The device that this rank computes on.
  const RankDevice& device() const;
  /// A claim: another rank computes on the same device as one of the group, so tensors on devices go through the host.
  bool shares_device() const;

  /// Adds up `tensor` over all ranks, in place. Contiguous, on the CPU or on device().
  /// Collective: yes. Blocks: until done; on a device only its stream waits.
  void all_reduce_sum(at::Tensor& tensor);

  /// Makes `tensor` what it is on `root`, in place. Contiguous, on the CPU or on device().
  /// Collective: yes. Blocks: until done; on a device only its stream waits.
  void broadcast(at::Tensor& tensor, int root = 0);

  /// Each rank's number, by rank.
  /// Collective: yes. Blocks: until done.
  std::vector<std::int64_t> all_gather(std::int64_t value);

  /// The text that `root` has; other ranks' is ignored.
  /// Collective: yes. Blocks: until done.
  std::string broadcast_text(std::string text, int root = 0);

  /// Looks whether the device's collectives have failed behind the host's back, and ends them where they have. Cheap
  /// enough for each step. Throws: Error(kPeer).
  void require_sound();

  /// Looks so while it waits, too: what hangs within a replayed graph is seen by nobody else.
  /// Blocks: until the device has done what this thread's current stream was given.
  /// Throws: Error(kPeer), also where that takes longer than JoinOptions::collective_timeout.
  void await_device();

  /// What another wait for the device calls now and then, for the same. Empty where the host's own calls tell of
  /// failures. The group must outlive it.
  std::function<void()> watch();

  /// Returns once every rank has come here.
  /// Collective: yes. Blocks: until then.
  void barrier();

  Impl& impl() { return *impl_; }

 private:
  [[noreturn]] void give_up_device(const std::string& fact);

  std::unique_ptr<Impl> impl_;
};

/// Calls `work` on rank 0 alone; what it throws, every rank throws.
///
/// Collective: yes. Blocks: until rank 0 is done.
void on_rank_zero(Group& group, const std::function<void()>& work);

/// Calls `work` on every rank; where it throws on some, every rank throws: its own error, else the first of them with
/// that rank named.
///
/// Collective: yes. Blocks: until every rank is done.
void on_every_rank(Group& group, const std::function<void()>& work);

/// Checks that every rank has the same text, line by line.
///
/// Collective: yes. Throws: Error(kind) on every rank, naming the ranks that differ from rank 0 and the first line that
/// does; `what` says what the text is, e.g. "the recipe".
void require_same_text(Group& group, ErrorKind kind, const std::string& what, const std::string& text,
                       const std::string& hint);

}  // namespace lockstep
