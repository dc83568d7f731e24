// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/guard/operation_watch.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/torch.h>

#include <cmath>
#include <mutex>
#include <optional>
#include <vector>

namespace lockstep {
namespace {

struct Contents {
  bool has_nan = false;
  bool has_infinity = false;

  bool is_finite() const { return !has_nan && !has_infinity; }
};

void look_at(const at::Tensor& tensor, Contents& contents) {
  if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type()) || tensor.layout() != at::kStrided) return;
  if (tensor.numel() == 0 || tensor.is_meta()) return;
  const auto plain = tensor.detach();
  contents.has_nan = contents.has_nan || at::isnan(plain).any().item<bool>();
  contents.has_infinity = contents.has_infinity || at::isinf(plain).any().item<bool>();
}

void look_at(const c10::IValue& value, Contents& contents) {
  if (value.isTensor()) {
    look_at(value.toTensor(), contents);
  } else if (value.isTensorList()) {
    for (const auto& each : value.toTensorVector()) look_at(each, contents);
  } else if (value.isDouble()) {
    contents.has_nan = contents.has_nan || std::isnan(value.toDouble());
    contents.has_infinity = contents.has_infinity || std::isinf(value.toDouble());
  } else if (value.isOptionalTensorList()) {
    for (const auto& each : value.toOptionalTensorVector()) {
      if (each) look_at(*each, contents);
    }
  }
}

template <typename Values>
Contents contents_of(const Values& values) {
  Contents contents;
  for (const auto& each : values) look_at(each, contents);
  return contents;
}

/// This operation returns uninitialized memory, so its content is not checked.
bool leaves_memory_as_it_is(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") || name.starts_with("aten::resize") ||
         name.starts_with("aten::set_");
}

struct Before : at::ObserverContext {
  Contents inputs;
};

}  // namespace

// The state of the watch. LibTorch passes its thread-local debug information on to the threads of a backward pass, so
// each of them finds this object.
struct OperationWatch::State : c10::DebugInfoBase {
  std::mutex mutex;
  const std::map<const void*, std::string>* names = nullptr;
  bool is_backward = false;
  std::string weight;    ///< The parameter that was used last.
  std::string infinity;  ///< The last operation that made an infinite number of finite ones.
  std::string nan;       ///< The first that made NaN of numbers without.

  std::string place(const std::string& operation) const {
    std::string text = operation + " (" + (is_backward ? "backward" : "forward");
    if (!weight.empty()) text += is_backward ? ", the forward pass ended with weight " + weight : ", weight " + weight;
    return text + ")";
  }
};

namespace {

OperationWatch::State* current() {
  return static_cast<OperationWatch::State*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO_2));
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  auto* state = current();
  if (state == nullptr) return nullptr;
  const at::DisableRecordFunctionGuard quiet;
  const torch::NoGradGuard no_grad;
  auto before = std::make_unique<Before>();
  before->inputs = contents_of(function.inputs());
  const std::scoped_lock lock(state->mutex);
  if (state->is_backward) return before;
  for (const auto& each : function.inputs()) {
    if (!each.isTensor()) continue;
    const auto it = state->names->find(each.toTensor().unsafeGetTensorImpl());
    if (it != state->names->end()) state->weight = it->second;
  }
  return before;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* state = current();
  if (state == nullptr || context == nullptr) return;
  const std::string name = function.name();
  if (leaves_memory_as_it_is(name)) return;
  const at::DisableRecordFunctionGuard quiet;
  const torch::NoGradGuard no_grad;
  const auto outputs = contents_of(function.outputs());
  const auto& inputs = static_cast<Before*>(context)->inputs;
  const std::scoped_lock lock(state->mutex);
  if (!state->nan.empty()) return;
  if (outputs.has_nan && !inputs.has_nan) {
    state->nan = state->place(name);
  } else if (outputs.has_infinity && inputs.is_finite()) {
    state->infinity = state->place(name);
  }
}

}  // namespace

OperationWatch::OperationWatch(const std::map<const void*, std::string>& names)
    : state_(std::make_shared<State>()), callback_(0) {
  state_->names = &names;
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::TEST_INFO_2, state_);
  callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_start, &on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
}

OperationWatch::~OperationWatch() {
  at::removeCallback(callback_);
  c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::TEST_INFO_2);
}

void OperationWatch::begin_backward() {
  const std::scoped_lock lock(state_->mutex);
  state_->is_backward = true;
}

std::string OperationWatch::origin() const {
  const std::scoped_lock lock(state_->mutex);
  std::string text;
  if (!state_->infinity.empty()) text = state_->infinity + " gave an infinite number";
  if (!state_->nan.empty()) text += (text.empty() ? "" : ", and then ") + state_->nan + " gave NaN";
  return text;
}

}  // namespace lockstep
