// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/noted_process_group.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/watch/page.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Writes "[64, 10]" and more such text within the memory's bounds, without allocating any.
class Text {
 public:
  explicit Text(std::span<char> memory) : memory_(memory) {}

  void add(std::string_view text) {
    const auto size = std::min(text.size(), memory_.size() - end_);
    std::copy_n(text.data(), size, memory_.data() + end_);
    end_ += size;
  }
  void add(std::int64_t number) {
    std::array<char, 24> digits{};
    const auto* const last = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    add(std::string_view(digits.data(), last));
  }
  std::string_view text() const { return {memory_.data(), end_}; }

 private:
  std::span<char> memory_;
  std::size_t end_ = 0;
};

/// The collective library has a tenth of its own limit, and some seconds, to give up by itself.
WatchdogOptions later(WatchdogOptions options) {
  options.limit += options.limit / 10 + 5 * options.look_every;
  return options;
}

[[noreturn]] void leave_process(int rank, const std::string& what) {
  Log(2, "lockstep: [rank " + std::to_string(rank) + "] ")
      .error(what + ", and the collective library does not give up, so this process ends\n  hint: " +
             "`lockstep why` tells which rank the others wait for; trainer.collective_timeout sets the limit");
  std::_Exit(exit_code(ErrorKind::kPeer));
}

}  // namespace

NotedProcessGroup::NotedProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world,
                                     WatchdogOptions options, std::shared_ptr<EndableWorks> works)
    : ProcessGroup(store, rank, world),
      works_(std::move(works)),
      watchdog_(later(std::move(options)), [rank](const std::string& what) { leave_process(rank, what); }) {}

// Within backward the reducer alone adds up numbers with fractions, one bucket after the other.
std::string_view NotedProcessGroup::detail(const char* operation, at::TensorList tensors, std::span<char> memory) {
  Text text(memory);
  const auto& page = Page::own();
  const bool is_of_gradients = !tensors.empty() && tensors.front().is_floating_point();
  if (page.phase() == Phase::kBackward && is_of_gradients && std::string_view(operation) == "all_reduce") {
    const auto backwards = page.times_entered(Phase::kBackward);
    if (std::exchange(backwards_, backwards) != backwards) buckets_ = 0;
    text.add("bucket ");
    text.add(++buckets_);
    return text.text();
  }
  if (tensors.empty()) return {};
  text.add("[");
  for (std::int64_t i = 0; i < tensors.front().dim(); ++i) {
    if (i > 0) text.add(", ");
    text.add(tensors.front().size(i));
  }
  text.add("]");
  if (tensors.size() > 1) {
    text.add(" and ");
    text.add(static_cast<std::int64_t>(tensors.size()) - 1);
    text.add(" more");
  }
  return text.text();
}

template <typename Call>
c10::intrusive_ptr<c10d::Work> NotedProcessGroup::noted(const char* operation, at::TensorList tensors, Call&& call) {
  const bool is_on_cpu = tensors.empty() || tensors.front().is_cpu();
  const auto begin = [&] {
    auto work = call();
    return works_ && is_on_cpu ? works_->follow(work) : work;
  };
  if (!Page::own().is_on()) return begin();  // A benchmark measures what this costs.
  std::int64_t elements = 0;
  for (const auto& each : tensors) elements += each.numel();
  const char* const type = tensors.empty() ? "" : c10::toString(tensors.front().scalar_type());
  std::array<char, 48> memory{};
  Page::own().begin_collective(operation, type, elements, detail(operation, tensors, memory));
  return watchdog_.follow(operation, is_on_cpu, begin);
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return noted("broadcast", tensors, [&] { return ProcessGroup::broadcast(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return noted("all_reduce", tensors, [&] { return ProcessGroup::allreduce(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::allreduce_coalesced(Tensors& tensors,
                                                                      const c10d::AllreduceCoalescedOptions& options) {
  return noted("all_reduce", tensors, [&] { return ProcessGroup::allreduce_coalesced(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return noted("reduce", tensors, [&] { return ProcessGroup::reduce(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  return noted("all_gather", inputs, [&] { return ProcessGroup::allgather(outputs, inputs, options); });
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                  const c10d::AllgatherOptions& options) {
  return noted("all_gather", {input}, [&] { return ProcessGroup::_allgather_base(output, input, options); });
}

c10::intrusive_ptr<c10d::Work> NotedProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return noted("barrier", {}, [&] { return ProcessGroup::barrier(options); });
}

}  // namespace lockstep
