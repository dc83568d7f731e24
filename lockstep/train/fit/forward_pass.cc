// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/forward_pass.h"

#include <torch/torch.h>

#include "lockstep/base/checksum.h"
#include "lockstep/train/precision.h"

namespace lockstep {

ForwardPass::ForwardPass(Module& module, Group& group, const TrainerOptions& options, const TrainingData& data)
    : module_(module), group_(group), options_(options), data_(data), device_(group.device().device) {
  if (options.step.sync_batchnorm) statistics_.emplace(module, group);
}

std::uint64_t ForwardPass::seed_of(std::int64_t step, std::int64_t index) const {
  return mixed(mixed(options_.seed, static_cast<std::uint64_t>(step)),
               mixed(static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(group_.rank())));
}

void ForwardPass::seed(std::int64_t step, std::int64_t index) const {
  const auto seed = seed_of(step, index);
  at::Generator(at::globalContext().defaultGenerator(device_)).set_current_seed(seed);
  if (!device_.is_cpu()) at::Generator(at::detail::getDefaultCPUGenerator()).set_current_seed(seed);
}

void ForwardPass::seed_device(std::int64_t step, std::int64_t index) const {
  auto generator = at::globalContext().defaultGenerator(device_);
  generator.set_current_seed(seed_of(step, index));
}

const Batch* ForwardPass::batch_to_run(const Batch& batch) {
  const bool has_samples = batch.samples() > 0;
  if (statistics_) statistics_->set_takes_part(has_samples);
  if (has_samples) return &batch;
  if (!statistics_) return nullptr;
  if (!stand_in_) {
    const auto& loader = data_.train();
    stand_in_ = to_device(batch_of_one(loader.source(), {.seed = loader.options().seed, .epoch = 0, .id = 0}), device_);
  }
  return &*stand_in_;
}

at::Tensor ForwardPass::loss(const Batch& batch, const StepPlace& place) {
  const AutocastScope autocast(options_.step.precision, device_);
  at::Tensor loss;
  name_failures(batch, place,
                [&] { loss = batch.kept ? module_.training_step(materialize(batch)) : module_.training_step(batch); });
  return loss;
}

}  // namespace lockstep
