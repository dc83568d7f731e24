// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/models/batch_norm.h"
#include "lockstep/train/module.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/made_up_data.h"

// The parts of a training whose data or network give numbers that are not finite.
namespace lockstep::testing {

inline constexpr std::int64_t kNobody = -1;

// A data module with the made-up samples, of which one may have a NaN.
class SpoiltSource : public SampleSource {
 public:
  SpoiltSource(std::shared_ptr<const SampleSource> source, std::int64_t spoilt)
      : source_(std::move(source)), spoilt_(spoilt) {}
  std::int64_t size() const override { return source_->size(); }
  const std::vector<Field>& fields() const override { return source_->fields(); }
  std::string name_of(std::int64_t id) const override { return "row " + std::to_string(id) + " of table.csv"; }
  void read(const SampleKey& key, std::span<std::byte* const> out) const override {
    source_->read(key, out);
    if (key.id == spoilt_) reinterpret_cast<float*>(out[0])[2] = std::nanf("");
  }

 private:
  std::shared_ptr<const SampleSource> source_;
  std::int64_t spoilt_;
};

struct SpoiltData : MadeUpData {
  explicit SpoiltData(std::int64_t spoilt = kNobody) : MadeUpData(6, 24) {
    source = std::make_shared<SpoiltSource>(source, spoilt);
  }
};

struct SpoiltNet : Module {
  SpoiltNet() {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    norm = register_module("norm", std::make_shared<BatchNorm>(8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
  }
  at::Tensor training_step(const Batch& batch) override {
    auto hidden = norm->forward(fc1(batch.input()));
    const auto row = std::ranges::find(batch.ids, log_of_zero) - batch.ids.begin();
    if (row < batch.samples()) hidden = hidden + (hidden.select(0, row) * 0).log().clamp(-1e30).sum() * 0;
    const auto row2 = std::ranges::find(batch.ids, infinite_slope) - batch.ids.begin();
    if (row2 < batch.samples()) hidden = hidden + (fc2->weight * 0).sqrt().sum();
    const auto loss = at::cross_entropy_loss(fc2(torch::tanh(hidden)), batch.target());
    log("train_mean", loss);
    seen.push_back(batch.ids);
    return loss;
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.1, .momentum = 0.9});
  }

  std::int64_t log_of_zero = kNobody;
  std::int64_t infinite_slope = kNobody;
  std::vector<std::vector<std::int64_t>> seen;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
  std::shared_ptr<BatchNorm> norm;
};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::vector<at::Tensor> state_of(const SpoiltNet& net) {
  std::vector<at::Tensor> out;
  for (const auto& each : net.parameters()) out.push_back(each.detach().clone());
  for (const auto& each : net.buffers()) out.push_back(each.clone());
  return out;
}

}  // namespace lockstep::testing
