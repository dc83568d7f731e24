// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The group of all ranks of a run, and collectives over it.
///
///     auto world = lockstep::join();
///     auto sums = at::stack({loss_sum, samples});
///     world.all_reduce_sum(sums);
///     if (world.is_main()) std::cout << "mean loss " << (sums[0] / sums[1]).item<double>() << "\n";

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

/// All ranks of a run, connected. With one rank every collective is a no-op and no socket is open.
///
/// Tensors on the CPU travel through Gloo, those on this rank's device through NCCL or RCCL. If a peer is lost, a
/// collective throws Error(kPeer). If a group is destroyed while an exception passes, it leaves its peers at once.
class Group {
 public:
  struct Impl;  ///< The c10d side, see comm/group_impl.h.

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
  /// Returns the device on which this rank computes.
  const RankDevice& device() const;
  /// True if two ranks of the group compute on the same device. Tensors on devices then travel through the host.
  bool shares_device() const;

  /// Adds up `tensor` over all ranks, in place. `tensor` is contiguous, on the CPU or on device().
  /// Collective: yes. Blocks: until done; on a device only its stream waits.
  void all_reduce_sum(at::Tensor& tensor);

  /// Overwrites `tensor` with that of rank `root`. `tensor` is contiguous, on the CPU or on device().
  /// Collective: yes. Blocks: until done; on a device only its stream waits.
  void broadcast(at::Tensor& tensor, int root = 0);

  /// Returns each rank's `value`, by rank.
  /// Collective: yes. Blocks: until done.
  std::vector<std::int64_t> all_gather(std::int64_t value);

  /// Returns the `text` of rank `root`. The text of other ranks is ignored.
  /// Collective: yes. Blocks: until done.
  std::string broadcast_text(std::string text, int root = 0);

  /// Checks whether collectives on the device have failed while the host went on. If so, it ends them and throws. The
  /// check is cheap enough for each step. Throws: Error(kPeer) if one has failed.
  void require_sound();

  /// Waits for the device, and checks for failed collectives meanwhile. No other call notices a collective that hangs
  /// within a replayed graph.
  /// Blocks: until the device has done the work on this thread's current stream.
  /// Throws: Error(kPeer), also if that takes longer than JoinOptions::collective_timeout.
  void await_device();

  /// Returns a function that checks for failed collectives. Other code that waits for the device calls it now and then.
  /// The function is empty if the host's own calls report failures. The group must outlive it.
  std::function<void()> watch();

  /// Returns once every rank has called it.
  /// Collective: yes. Blocks: until then.
  void barrier();

  /// Returns true once any rank was asked to stop. A rank is asked to stop by SIGTERM, SIGINT, SIGUSR1 or SIGUSR2, or
  /// if the job's time is up in a minute (LOCKSTEP_JOB_END, which `lockstep submit` sets). For a loop of your own,
  /// after each step:
  ///
  ///     if (world.stop_requested()) break;  // on every rank after the same step; then save, and exit with 75
  ///
  /// Ranks agree with the gradients of DistributedDataParallel::backward(), without an extra message. From the first
  /// call on, those signals no longer end the process, but a second SIGINT does. Collective: no.
  /// Throws: Error(kUsage) if there are several ranks and no DistributedDataParallel, since ranks agree through it.
  bool stop_requested();

  /// True if a rank that dies is started again by its parent, and the others can meet it in rejoin().
  bool can_rejoin() const;
  /// True if this process was started in a dead rank's place and has not met the others yet. Until then a collective
  /// does nothing, as with one rank.
  bool is_newcomer() const;
  /// Leaves the other ranks, which makes their collectives throw Error(kPeer). All objects made with the group, such as
  /// a DistributedDataParallel, must be destroyed by then.
  void leave();
  /// Leaves the other ranks, and meets them again once the dead one has been started again.
  ///
  /// Collective: yes, of the survivors and the newcomers. Blocks: until all are there.
  /// Throws: Error(kPeer) if the parent does not start the dead rank again, or if a rank does not come.
  void rejoin();

  Impl& impl() { return *impl_; }

 private:
  [[noreturn]] void give_up_device(const std::string& fact);

  std::unique_ptr<Impl> impl_;
};

/// Calls `work` on rank 0 only. If `work` throws, every rank throws that error.
///
/// Collective: yes. Blocks: until rank 0 is done.
void on_rank_zero(Group& group, const std::function<void()>& work);

/// Calls `work` on every rank. If it throws on some ranks, every rank throws. A rank on which `work` threw throws its
/// own error. The others throw the error of the first such rank, and the message names that rank.
///
/// Collective: yes. Blocks: until every rank is done.
void on_every_rank(Group& group, const std::function<void()>& work);

/// Checks that every rank has the same text, line by line. `what` names the text in the message, e.g. "the recipe".
///
/// Collective: yes.
/// Throws: Error(kind) on every rank, naming the ranks that differ from rank 0 and the first line that differs.
void require_same_text(Group& group, ErrorKind kind, const std::string& what, const std::string& text,
                       const std::string& hint);

}  // namespace lockstep
