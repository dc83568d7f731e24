// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/step_cost.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

/// Returns the operations of a matrix product, [.., m, k] times [.., k, n].
double product_flops(const at::Tensor& a, const at::Tensor& b) {
  return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(-1));
}

/// Returns the operations of a convolution. `places` is the number of output positions of all samples. Each position
/// needs the whole kernel once.
double convolution_flops(double places, const at::Tensor& weight) {
  return 2.0 * places * static_cast<double>(weight.numel());
}

double output_places(const at::Tensor& output) {
  return static_cast<double>(output.numel()) / static_cast<double>(output.size(1));
}

// The arguments of aten::convolution are input, weight, bias, stride, padding, dilation, transposed and so on.
double forward_places(Inputs inputs) {
  const auto input = inputs[0].toTensor();
  const auto weight = inputs[1].toTensor();
  if (inputs[6].toBool()) return output_places(input);
  const auto stride = inputs[3].toIntVector();
  const auto padding = inputs[4].toIntVector();
  const auto dilation = inputs[5].toIntVector();
  double places = static_cast<double>(input.size(0));
  for (std::int64_t i = 2; i < input.dim(); ++i) {
    const auto at = [i](const std::vector<std::int64_t>& list) {
      return list.size() == 1 ? list[0] : list.at(static_cast<std::size_t>(i - 2));
    };
    const auto reach = at(dilation) * (weight.size(i) - 1) + 1;
    places *= static_cast<double>((input.size(i) + 2 * at(padding) - reach) / at(stride) + 1);
  }
  return places;
}

double attention_flops(const at::Tensor& query, const at::Tensor& key) {
  return 2 * 2.0 * static_cast<double>(query.numel()) * static_cast<double>(key.size(-2));
}

double flops_of(std::string_view name, Inputs inputs) {
  if (name == "aten::mm" || name == "aten::bmm") return product_flops(inputs[0].toTensor(), inputs[1].toTensor());
  if (name == "aten::addmm" || name == "aten::baddbmm") {
    return product_flops(inputs[1].toTensor(), inputs[2].toTensor());
  }
  if (name == "aten::convolution") return convolution_flops(forward_places(inputs), inputs[1].toTensor());
  if (name == "aten::convolution_backward") {
    // Counts the backward pass of a convolution. The last argument says which of input, weight and bias get a gradient.
    const auto wanted = inputs[10].toBoolList();
    const double products = (wanted[0] ? 1 : 0) + (wanted[1] ? 1 : 0);
    return products * convolution_flops(output_places(inputs[0].toTensor()), inputs[2].toTensor());
  }
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu") {
    return attention_flops(inputs[0].toTensor(), inputs[1].toTensor());
  }
  // Counts the backward pass of attention. It computes one of the forward pass's two products again, and four more.
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward") {
    return 2.5 * attention_flops(inputs[1].toTensor(), inputs[2].toTensor());
  }
  return 0;
}

/// True if an operation of this name computes nothing, but only makes a view, or memory for another operation.
bool only_looks(std::string_view name) {
  static constexpr auto kLooking = std::to_array<std::string_view>({"aten::empty",
                                                                    "aten::empty_like",
                                                                    "aten::empty_strided",
                                                                    "aten::new_empty",
                                                                    "aten::resize_",
                                                                    "aten::view",
                                                                    "aten::_unsafe_view",
                                                                    "aten::as_strided",
                                                                    "aten::reshape",
                                                                    "aten::_reshape_alias",
                                                                    "aten::t",
                                                                    "aten::transpose",
                                                                    "aten::permute",
                                                                    "aten::expand",
                                                                    "aten::expand_as",
                                                                    "aten::squeeze",
                                                                    "aten::unsqueeze",
                                                                    "aten::select",
                                                                    "aten::slice",
                                                                    "aten::narrow",
                                                                    "aten::split",
                                                                    "aten::chunk",
                                                                    "aten::unbind",
                                                                    "aten::alias",
                                                                    "aten::detach",
                                                                    "aten::detach_",
                                                                    "detach",
                                                                    "detach_",
                                                                    "aten::flatten",
                                                                    "aten::to",
                                                                    "aten::contiguous",
                                                                    "aten::lift_fresh",
                                                                    "aten::item",
                                                                    "aten::_local_scalar_dense",
                                                                    "aten::is_nonzero",
                                                                    "aten::result_type",
                                                                    "aten::set_",
                                                                    "aten::resolve_conj",
                                                                    "aten::resolve_neg",
                                                                    "aten::view_as",
                                                                    "aten::unfold",
                                                                    "aten::movedim",
                                                                    "aten::size",
                                                                    "aten::is_same_size"});
  return std::ranges::find(kLooking, name) != kLooking.end();
}

StepCost* counted_cost() {
  return static_cast<StepCost*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
}

std::unique_ptr<at::ObserverContext> on_operation(const at::RecordFunction& function) {
  if (auto* cost = counted_cost()) {
    cost->add_flops(flops_of(function.name(), function.inputs()));
    cost->begin_operation();
  }
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (auto* cost = counted_cost()) cost->end_operation(!only_looks(function.name()));
}

}  // namespace

StepCostScope::StepCostScope()
    : cost_(std::make_shared<StepCost>()),
      guard_(c10::DebugInfoKind::PROFILER_STATE, cost_),
      callback_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&on_operation, &on_end).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {}

StepCostScope::~StepCostScope() { at::removeCallback(callback_); }

}  // namespace lockstep
