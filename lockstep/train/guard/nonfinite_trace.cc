// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/guard/nonfinite_trace.h"

#include <torch/torch.h>

#include <algorithm>

#include "lockstep/train/guard/finite_gradients.h"
#include "lockstep/train/guard/operation_watch.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostNamed = 3;

// Returns the samples of a batch that have a number that is not finite, in any field.
std::vector<std::int64_t> bad_samples(const Batch& batch) {
  auto bad = at::zeros({batch.samples()}, at::kBool);
  for (const auto& field : batch.fields) {
    if (!at::isFloatingType(field.scalar_type()) || field.dim() == 0) continue;
    bad.logical_or_(at::isfinite(field).logical_not_().reshape({batch.samples(), -1}).any(1).to(at::kCPU));
  }
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < batch.samples(); ++i) {
    if (bad.const_data_ptr<bool>()[i]) ids.push_back(batch.ids.at(static_cast<std::size_t>(i)));
  }
  return ids;
}

std::vector<at::Tensor> trained(const torch::nn::Module& module) {
  std::vector<at::Tensor> out;
  for (const auto& each : module.parameters()) {
    if (each.requires_grad()) out.push_back(each);
  }
  return out;
}

}  // namespace

NonfiniteTrace::NonfiniteTrace(const torch::nn::Module& module, const SampleSource& source, Group& group)
    : module_(module), source_(source), group_(group) {
  for (const auto& each : module.named_parameters()) names_.emplace(each.value().unsafeGetTensorImpl(), each.key());
}

std::string NonfiniteTrace::named(const std::vector<std::int64_t>& ids) const {
  std::string text;
  for (std::size_t i = 0; i < std::min(ids.size(), kMostNamed); ++i)
    text += (i == 0 ? "" : ", ") + source_.name_of(ids[i]);
  if (ids.size() > kMostNamed) text += " and " + std::to_string(ids.size() - kMostNamed) + " more";
  return text;
}

std::string NonfiniteTrace::bad_weight() const {
  for (const auto& each : module_.named_parameters()) {
    if (!all_finite({each.value()})) return each.key();
  }
  return {};
}

NonfiniteTrace::Finding NonfiniteTrace::look_at(const Batch& batch, std::size_t index, const Loss& loss) const {
  OperationWatch watch(names_);
  const auto value = loss(batch, index);
  if (!value.defined()) return {};
  bool is_finite = all_finite({value.detach()});
  if (value.requires_grad()) {
    watch.begin_backward();
    // torch::autograd::grad() returns gradients without adding them to the parameters' gradients, and calls no hook of
    // the averaging.
    std::vector<at::Tensor> gradients;
    for (const auto& each : torch::autograd::grad({value}, trained(module_), {}, {}, false, /*allow_unused=*/true)) {
      if (each.defined()) gradients.push_back(each);
    }
    is_finite = is_finite && all_finite(gradients);
  }
  if (is_finite || batch.samples() == 0) return {};
  const auto ids = bad_samples(batch.kept ? materialize(batch) : batch);
  if (!ids.empty()) {
    return {Finding::kData, named(ids) + (ids.size() == 1 ? " holds" : " hold") + " numbers that are not finite"};
  }
  if (const auto weight = bad_weight(); !weight.empty()) {
    return {Finding::kWeights, "the weight " + weight + " was not finite before the step"};
  }
  const auto origin = watch.origin();
  return {Finding::kModel,
          (origin.empty() ? "the loss or its gradient is not finite" : origin) + ", for " + named(batch.ids)};
}

NonfiniteOrigin NonfiniteTrace::find(const std::vector<Batch>& batches, const Loss& loss) const {
  Finding own;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto found = look_at(batches[i], i, loss);
    if (found.certainty > own.certainty) own = found;
  }
  const auto of_ranks = group_.all_gather(own.certainty);
  const auto best = std::ranges::max_element(of_ranks);
  const auto rank = static_cast<int>(best - of_ranks.begin());
  const auto text = group_.broadcast_text(own.text, rank);
  if (*best == Finding::kNothing) {
    return {
        ErrorKind::kEnvironment, "and is finite on every rank if the same batches are run again",
        "look for a device that computes wrongly, with `lockstep doctor`; trainer.compression fp16 can overflow, too"};
  }
  const auto where = group_.world() > 1 ? "on rank " + std::to_string(rank) + ", " + text : text;
  if (*best == Finding::kData) {
    return {ErrorKind::kData, where,
            "mend or leave out these samples; guard.on_nonfinite = \"skip\" leaves out such steps"};
  }
  return {
      ErrorKind::kRecipe, where,
      "lower optimizer.lr, set trainer.clip_norm or look at that operation; guard.on_nonfinite = \"skip\" leaves out "
      "such steps"};
}

}  // namespace lockstep
