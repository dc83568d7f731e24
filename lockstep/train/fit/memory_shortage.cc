// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/memory_shortage.h"

#include <torch/torch.h>

#include "lockstep/device/device_failure.h"
#include "lockstep/device/out_of_memory.h"

namespace lockstep {
namespace {

// Returns how many bytes the first update will allocate for the optimizer's state: a momentum, or Adam's two means.
// Returns 0 if there was an update already.
std::int64_t state_to_come(const TrainedModel& model) {
  auto& optimizer = model.optimizer();
  if (!optimizer.state().empty()) return 0;
  const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&optimizer.param_groups()[0].options());
  const std::int64_t copies = sgd == nullptr ? 2 : sgd->momentum() > 0 ? 1 : 0;
  std::int64_t bytes = 0;
  for (const auto& each : model.weights()) bytes += copies * static_cast<std::int64_t>(each.nbytes());
  return bytes;
}

std::optional<std::int64_t> peak_of(TrainedModel& model, const Batch& batch, std::int64_t samples,
                                    Precision precision) {
  const auto& device = model.group().device();
  device.backend->forget_peak(device.index());
  std::optional<std::int64_t> peak;
  try {
    model.module().metrics().begin_batch(samples);
    at::Tensor loss;
    {
      const AutocastScope autocast(precision, device.device);
      loss = model.module().training_step(materialize(head(batch, samples)));
    }
    loss.backward();
    peak = device.memory().peak;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    peak.reset();
  }
  model.optimizer().zero_grad();
  return peak;
}

}  // namespace

void throw_out_of_memory(TrainedModel& model, const Batch& batch, const ShortageFacts& facts) {
  const auto& device = model.group().device();
  MemoryShortage shortage{.device = device.description(), .batch = batch.samples()};
  model.disconnect();
  model.optimizer().zero_grad();
  if (!device.is_cpu()) {
    const auto memory = device.memory();
    shortage.kept = memory.held + state_to_come(model);
    shortage.usable = memory.held + memory.available;
    shortage.samples = facts.sample_bytes;
    for (auto samples = batch.samples() / 2; facts.may_try && samples > 0 && shortage.peaks.size() < 2; samples /= 2) {
      const auto peak = peak_of(model, batch, samples, facts.precision);
      if (peak) shortage.peaks.push_back({samples, *peak + state_to_come(model)});
    }
  }
  throw OutOfMemory(shortage);
}

}  // namespace lockstep
