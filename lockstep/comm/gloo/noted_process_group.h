// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "lockstep/comm/gloo/collective_watchdog.h"
#include "lockstep/comm/gloo/endable_works.h"

namespace lockstep {

/// A process group that notes each collective in the rank's page before it begins (watch/page.h). It ends the process
/// if one does not end (collective_watchdog.h).
///
/// A hook of DistributedDataParallel would see only the gradients, and would change the order of their sums. What c10d
/// calls itself, such as the reducer's all-reduces, comes through these functions too.
class NotedProcessGroup final : public c10d::ProcessGroup {
 public:
  /// If `works` is not null, it can end the collectives of tensors on the CPU.
  NotedProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world, WatchdogOptions options,
                    std::shared_ptr<EndableWorks> works);

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

 private:
  template <typename Call>
  c10::intrusive_ptr<c10d::Work> noted(const char* operation, at::TensorList tensors, Call&& call);
  std::string_view detail(const char* operation, at::TensorList tensors, std::span<char> memory);

  std::uint64_t backwards_ = 0;  ///< How often the page entered backward, as of the newest bucket.
  std::int64_t buckets_ = 0;     ///< Sent in this one.
  std::shared_ptr<EndableWorks> works_;
  CollectiveWatchdog watchdog_;
};

}  // namespace lockstep
