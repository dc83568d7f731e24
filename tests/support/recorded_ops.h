// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "lockstep/device/backend.h"

namespace lockstep::testing {

/// Does the work of a device's graph with the CPU's operations. capture() records every operation below autograd with
/// its input and output tensors. replay() runs them again on the same memory, and none of the host's code.
///
/// There is one difference. A device runs nothing while it records, but the CPU has then done the step already. So the
/// first replay() does nothing. With `undoes`, capture() puts back what the work has overwritten.
class RecordedOps final : public StepGraph {
 public:
  explicit RecordedOps(bool undoes = false) : undoes_(undoes) {}

  void capture(const std::function<void()>& work) override {
    {
      const Recording recording(*this);
      work();
    }
    is_done_ = !undoes_;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (auto it = overwritten_.rbegin(); it != overwritten_.rend(); ++it) it->first.copy_(it->second);
    overwritten_.clear();
  }

  void replay() override {
    if (std::exchange(is_done_, false)) return;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const torch::NoGradGuard no_grad;
    for (const auto& call : calls_) {
      auto stack = call.inputs;
      call.op.callBoxed(&stack);
      for (std::size_t i = 0; i < stack.size(); ++i) {
        await(stack[i]);
        put(stack[i], call.outputs[i]);
      }
    }
  }

  std::size_t size() const { return calls_.size(); }

 private:
  struct Call {
    c10::OperatorHandle op;
    torch::jit::Stack inputs;
    torch::jit::Stack outputs;
  };

  // A dispatch key below autograd and above the CPU's that LibTorch itself does not use.
  static constexpr auto kKey = c10::DispatchKey::Fake;

  class Recording {
   public:
    explicit Recording(RecordedOps& ops) : include_(kKey) { now() = &ops; }
    ~Recording() { now() = nullptr; }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    c10::impl::IncludeDispatchKeyGuard include_;
  };

  static RecordedOps*& now() {
    static RecordedOps* ops = nullptr;
    return ops;
  }

  void keep(const at::Tensor& tensor) {
    if (tensor.defined()) overwritten_.emplace_back(tensor.detach(), tensor.detach().clone());
  }

  void keep_overwritten(const Call& call) {
    const auto& arguments = call.op.schema().arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto* alias = arguments[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      if (call.inputs[i].isTensor()) keep(call.inputs[i].toTensor());
      if (!call.inputs[i].isTensorList()) continue;
      for (const auto& tensor : call.inputs[i].toTensorVector()) keep(tensor);
    }
  }

  // A device orders a collective and what comes after it by itself.
  static void await(const c10::IValue& made) {
    if (made.isCustomClass()) made.toCustomClass<c10d::Work>()->wait();
  }

  static void put(const c10::IValue& made, const c10::IValue& where) {
    if (made.isTensor() && where.isTensor()) put(made.toTensor(), where.toTensor());
    if (!made.isTensorList()) return;
    const auto from = made.toTensorVector(), to = where.toTensorVector();
    for (std::size_t i = 0; i < from.size(); ++i) put(from[i], to[i]);
  }

  static void put(const at::Tensor& made, const at::Tensor& where) {
    if (!made.defined() || !where.defined() || made.is_same(where)) return;
    if (made.const_data_ptr() != where.const_data_ptr()) where.detach().copy_(made);
  }

  static void record(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
    Call call{op, torch::jit::Stack(stack->end() - count, stack->end()), {}};
    {
      const c10::impl::ExcludeDispatchKeyGuard not_again(kKey);
      if (now() != nullptr && now()->undoes_) now()->keep_overwritten(call);
      op.callBoxed(stack);
    }
    const auto results = static_cast<std::ptrdiff_t>(op.schema().returns().size());
    call.outputs.assign(stack->end() - results, stack->end());
    if (now() != nullptr) now()->calls_.push_back(std::move(call));
  }

  friend void register_recorded_ops(torch::Library& library);

  bool undoes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> overwritten_;  ///< Each with what it held before.
  std::vector<Call> calls_;
  bool is_done_ = false;
};

inline void register_recorded_ops(torch::Library& library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&RecordedOps::record>());
}

}  // namespace lockstep::testing
