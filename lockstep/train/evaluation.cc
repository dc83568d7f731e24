// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/evaluation.h"

#include <torch/torch.h>

#include <sstream>

#include "lockstep/device/device_failure.h"
#include "lockstep/train/model_failure.h"

namespace lockstep {
namespace {

c10::Device device_of(const Module& module) {
  const auto parameters = module.parameters();
  return parameters.empty() ? c10::Device(c10::kCPU) : parameters[0].device();
}

// Returns the shape of one row of results. A rank without samples cannot know it, so it comes from rank 0.
std::vector<std::int64_t> shared_row_shape(const at::Tensor& own, Group& group) {
  std::string text;
  if (own.defined()) {
    for (const auto size : own.sizes().slice(1)) text += std::to_string(size) + " ";
  }
  // Rank 0's part of a batch is never smaller than another rank's. So rank 0 has a row if any rank has one.
  text = group.broadcast_text(text);
  std::vector<std::int64_t> shape;
  std::istringstream words(text);
  for (std::int64_t size = 0; words >> size;) shape.push_back(size);
  return shape;
}

}  // namespace

bool validate_batches(Module& module, Loader& loader, std::int64_t samples, Precision precision,
                      const std::function<bool()>& is_stopped) {
  const torch::NoGradGuard no_grad;
  const auto device = device_of(module);
  module.eval();
  module.on_validation_start();
  if (!device.is_cpu()) loader.pin_memory();
  loader.seek(0, 0);
  for (std::int64_t place = 0; place < samples;) {
    auto batch = loader.next();
    if (!batch) break;
    place += batch->global_samples;
    if (batch->samples() > 0) {
      const AutocastScope autocast(precision, device);
      module.metrics().begin_batch(batch->samples());
      const auto there = to_device(std::move(*batch), device);
      naming_model_failures(
          there, [] { return "validation"; }, [&] { module.validation_step(there); });
    }
    if (is_stopped && is_stopped()) return false;
  }
  return true;
}

std::map<std::string, double> evaluated(Module& module, Loader& loader, Group& group, Precision precision) {
  return naming_device_failures(group.device(), [&] {
    module.metrics().clear();
    validate_batches(module, loader, loader.source().size(), precision);
    auto metrics = module.metrics().over_ranks(group);
    module.metrics().clear();
    metrics.merge(module.on_validation_end(group, metrics));
    return metrics;
  });
}

void predict(Module& module, Loader& loader, Group& group, Precision precision,
             const std::function<void(std::int64_t, const at::Tensor&)>& take) {
  const torch::NoGradGuard no_grad;
  const auto device = device_of(module);
  module.eval();
  if (!device.is_cpu()) loader.pin_memory();
  loader.seek(0, 0);
  std::int64_t first = 0;
  while (const auto batch = loader.next()) {
    at::Tensor own;
    if (batch->samples() > 0) {
      const AutocastScope autocast(precision, device);
      own = naming_device_failures(group.device(), [&] {
        const auto there = to_device(*batch, device);
        return naming_model_failures(
            there, [] { return "prediction"; },
            [&] { return module.predict_step(there).to(at::kCPU, at::kDouble).contiguous(); });
      });
    }
    auto shape = shared_row_shape(own, group);
    shape.insert(shape.begin(), batch->global_samples);
    // Each rank's tensor is zero outside the rank's own rows. So the sum over ranks has all rows.
    auto all = at::zeros(shape, at::kDouble);
    if (own.defined()) all.narrow(0, batch->first_index - first, batch->samples()).copy_(own);
    group.all_reduce_sum(all);
    on_rank_zero(group, [&] { take(first, all); });
    first += batch->global_samples;
  }
}

}  // namespace lockstep
