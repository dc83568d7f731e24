// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/noted_process_group.h"

#include <string_view>

#include "lockstep/watch/page.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

void note(std::string_view operation, at::TensorList tensors) {
  std::int64_t elements = 0;
  for (const auto& each : tensors) elements += each.numel();
  const char* const type = tensors.empty() ? "" : c10::toString(tensors.front().scalar_type());
  Page::own().begin_collective(operation, type, elements);
}

}  // namespace

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  note("broadcast", tensors);
  return ProcessGroup::broadcast(tensors, options);
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  note("all_reduce", tensors);
  return ProcessGroup::allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::allreduce_coalesced(Tensors& tensors,
                                                                      const c10d::AllreduceCoalescedOptions& options) {
  note("all_reduce", tensors);
  return ProcessGroup::allreduce_coalesced(tensors, options);
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  note("reduce", tensors);
  return ProcessGroup::reduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  note("all_gather", inputs);
  return ProcessGroup::allgather(outputs, inputs, options);
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                  const c10d::AllgatherOptions& options) {
  note("all_gather", {input});
  return ProcessGroup::_allgather_base(output, input, options);
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::barrier(const c10d::BarrierOptions& options) {
  note("barrier", {});
  return ProcessGroup::barrier(options);
}

}  // namespace lockstep
