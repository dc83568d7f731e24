// SPDX-License-Identifier: Apache-2.0
// A training with everything on, resumed after each of its steps: it ends with the bits of one that was left alone.
// LOCKSTEP_RESUME_SEED draws other data and other random numbers. With LOCKSTEP_SOAK=1 no step is passed over.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>

#include "lockstep/models/batch_norm.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "lockstep/train/weight_average.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::TemporaryFolder;

constexpr std::int64_t kSteps = 80;
constexpr std::int64_t kSampled = 13;  // Each so many steps, without LOCKSTEP_SOAK.

std::uint64_t seed() {
  const char* text = std::getenv("LOCKSTEP_RESUME_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

// Adds to each sample what depends on seed, epoch and sample alone, as augmentation does.
class Augmented : public SampleSource {
 public:
  explicit Augmented(std::shared_ptr<const SampleSource> source) : source_(std::move(source)) {}
  std::int64_t size() const override { return source_->size(); }
  const std::vector<Field>& fields() const override { return source_->fields(); }
  std::string name_of(std::int64_t id) const override { return source_->name_of(id); }
  void read(const SampleKey& key, std::span<std::byte* const> out) const override {
    source_->read(key, out);
    const auto draw = (key.seed * 31 + static_cast<std::uint64_t>(key.epoch * 7 + key.id)) % 5;
    reinterpret_cast<float*>(out[0])[draw % 4] *= -1;
  }

 private:
  std::shared_ptr<const SampleSource> source_;
};

struct Data : MadeUpData {
  Data() : MadeUpData(8, 58) { source = std::make_shared<Augmented>(source); }
  std::unique_ptr<Loader> train_loader(Shard shard) override {
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = batch, .shard = shard, .seed = seed()});
  }
};

struct Net : Module {
  Net() {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, 24));
    norm = register_module("norm", std::make_shared<BatchNorm>(24));
    fc2 = register_module("fc2", torch::nn::Linear(24, 24));
    fc3 = register_module("fc3", torch::nn::Linear(24, 3));
  }
  at::Tensor loss(const Batch& batch) {
    const auto hidden = norm->forward(torch::dropout(torch::relu(fc1(batch.input())), 0.3, is_training()));
    return at::cross_entropy_loss(fc3(torch::tanh(fc2(hidden))), batch.target());
  }
  at::Tensor training_step(const Batch& batch) override {
    const auto value = loss(batch);
    log("train_mean", value);
    return value;
  }
  void validation_step(const Batch& batch) override { log("val_loss", loss(batch)); }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "adamw", .lr = 0.01, .amsgrad = true});
  }
  ScheduleOptions configure_schedule(const TrainingPlan&) override {
    return {.schedule = CosineSchedule{.t_max = kSteps}, .by_step = true, .warmup = 5};
  }

  torch::nn::Linear fc1 = nullptr, fc2 = nullptr, fc3 = nullptr;
  std::shared_ptr<BatchNorm> norm;
};

TrainerOptions everything_on() {
  TrainerOptions options{.max_epochs = 0, .max_steps = kSteps, .seed = seed() + 1};
  options.step.precision = Precision::kBf16;
  options.step.accumulate = 2;
  options.step.clip_norm = 1;
  options.step.sync_batchnorm = true;
  options.step.parallel.compression = {.kind = Compression::kPowerSgd, .start_step = 3, .min_rate = 1};
  options.guard.compare.every_steps = 0;
  return options;
}

struct End {
  std::string weights, samples, averages;
  std::map<std::string, double> metrics;

  bool operator==(const End&) const = default;
};

End trained(const TrainerOptions& options, Group& group) {
  Net net;
  Data data;
  WeightAverage average({.decay = 0.9});
  Trainer trainer(options);
  trainer.add(average);
  const auto result = trainer.fit(net, data, group);
  average.copy_to(net);
  return {result.weights_digest, result.state.digest.hex(), weights_digest(net), result.state.metrics};
}

// Each snapshot is what a rank that was killed after that step leaves behind.
void resume_after_each_step(Group& group) {
  const bool is_soak = std::getenv("LOCKSTEP_SOAK") != nullptr;
  if (is_soak) ::alarm(900);
  const TemporaryFolder own;
  const std::filesystem::path folder = group.broadcast_text((own.path() / "snapshots").string());
  const auto wanted = trained(everything_on(), group);
  auto saving = everything_on();
  saving.snapshot = {.folder = folder, .every_epochs = 0, .every_steps = 1, .keep = 0};
  EXPECT_EQ(trained(saving, group), wanted) << "saving has changed the training";
  for (std::int64_t step = 1; step <= kSteps; step += is_soak ? 1 : kSampled) {
    auto resumed = everything_on();
    auto number = std::to_string(step);
    number.insert(0, 10 - number.size(), '0');
    resumed.snapshot.resume_from = folder / ("step-" + number);
    EXPECT_EQ(trained(resumed, group), wanted) << "resumed after step " << step << ", seed " << seed();
  }
}

RANKS_TEST(ResumedAfterEachStep, OfTwoRanks, 2) { resume_after_each_step(group); }
RANKS_TEST(ResumedAfterEachStep, OfThreeRanks, 3) { resume_after_each_step(group); }
RANKS_TEST(ResumedAfterEachStep, OfFourRanks, 4) { resume_after_each_step(group); }

}  // namespace
}  // namespace lockstep
