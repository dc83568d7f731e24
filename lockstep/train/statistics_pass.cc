// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/statistics_pass.h"

#include <torch/torch.h>

#include "lockstep/models/batch_norm.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBatchesBetweenStopChecks = 16;

using Undo = std::vector<std::function<void()>>;

bool begin_mean(torch::nn::Module& module, Undo& undo) {
  auto* layer = dynamic_cast<BatchNorm*>(&module);
  if (layer == nullptr) return false;
  layer->begin_mean();
  undo.push_back([layer] { layer->end_mean(); });
  return true;
}

// Begins the plain mean, as begin_mean() does, for LibTorch's own BatchNorm layers of any dimension.
template <typename Layer>
bool begin_torch_mean(torch::nn::Module& module, Undo& undo) {
  auto* layer = dynamic_cast<Layer*>(&module);
  if (layer == nullptr || !layer->running_mean.defined()) return false;
  const auto momentum = layer->options.momentum();
  layer->reset_running_stats();
  layer->options.momentum(std::nullopt);
  undo.push_back([layer, momentum] { layer->options.momentum(momentum); });
  return true;
}

void end_validation(const std::vector<Extension*>& extensions, std::size_t begun) {
  for (std::size_t i = begun; i > 0; --i) extensions[i - 1]->after_validation();
}

}  // namespace

BatchNormMeans::BatchNormMeans(torch::nn::Module& module) {
  for (const auto& each : module.modules(/*include_self=*/false)) {
    begin_mean(*each, undo_) || begin_torch_mean<torch::nn::BatchNorm1dImpl>(*each, undo_) ||
        begin_torch_mean<torch::nn::BatchNorm2dImpl>(*each, undo_) ||
        begin_torch_mean<torch::nn::BatchNorm3dImpl>(*each, undo_);
  }
}

BatchNormMeans::~BatchNormMeans() {
  for (const auto& each : undo_) each();
}

bool retake_statistics(Module& module, Loader& loader, const StatisticsBatches& batches) {
  const BatchNormMeans means(module);
  if (means.empty()) return true;
  const torch::NoGradGuard no_grad;
  module.train();
  loader.seek(0, 0);
  std::int64_t index = 0;
  for (std::int64_t place = 0; place < batches.samples; ++index) {
    if (index % kBatchesBetweenStopChecks == 0 && batches.is_stopped()) return false;
    const auto batch = loader.next();
    if (!batch) break;
    place += batch->global_samples;
    batches.run(*batch, index);
  }
  return true;
}

void with_weights_of(const std::vector<Extension*>& extensions, const std::function<void()>& work) {
  std::size_t begun = 0;
  try {
    for (auto* each : extensions) {
      each->before_validation();
      ++begun;
    }
    work();
  } catch (...) {
    end_validation(extensions, begun);
    throw;
  }
  end_validation(extensions, begun);
}

}  // namespace lockstep
