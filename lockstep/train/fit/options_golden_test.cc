// SPDX-License-Identifier: Apache-2.0
// Compares each option of a step with PyTorch. tests/golden/trainer/make.py wrote the expected numbers, and describes
// the network and the batches.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/comm/join.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "lockstep/train/weight_average.h"
#include "tests/support/source_root.h"
#include "tests/support/step_losses.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::message_of;

const json& golden() {
  static const json all =
      json::parse(text_of_file(lockstep::testing::source_root() / "tests/golden/trainer/options.json"));
  return all;
}

torch::optim::SGD sgd(double lr, double momentum = 0.9) {
  return torch::optim::SGD({at::zeros({1}).requires_grad_()}, torch::optim::SGDOptions(lr).momentum(momentum));
}

void expect_rates(const std::string& name, const ScheduleOptions& options) {
  auto optimizer = sgd(0.1);
  Scheduler scheduler(options, optimizer);
  const auto& wanted = golden().at("schedules").at(name);
  const bool is_plateau = name.starts_with("plateau");
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(wanted.size()); ++t) {
    scheduler.prepare(t, t);
    const auto& now = static_cast<const torch::optim::SGDOptions&>(optimizer.param_groups()[0].options());
    EXPECT_NEAR(now.lr(), wanted[static_cast<std::size_t>(t)][0].get<double>(), 1e-12) << name << " at " << t;
    EXPECT_NEAR(now.momentum(), wanted[static_cast<std::size_t>(t)][1].get<double>(), 1e-12) << name << " at " << t;
    if (is_plateau) scheduler.observe({{"val_loss", golden().at("plateau_values")[static_cast<std::size_t>(t)]}});
    Scheduler resumed(options, optimizer);
    resumed.restore(scheduler.state());
    EXPECT_EQ(resumed.state(), scheduler.state());
  }
}

const StepSchedule kStep{.step_size = 3, .gamma = 0.5};
const MultiStepSchedule kMultiStep{.milestones = {2, 5, 5, 9}, .gamma = 0.3};
const CosineSchedule kCosine{.t_max = 12, .eta_min = 0.01};
const LinearSchedule kLinear{.start_factor = 0.25, .end_factor = 0.75, .total_iters = 6};

TEST(Scheduler, GivesPyTorchsRates) {
  expect_rates("step", {.schedule = kStep});
  expect_rates("multistep", {.schedule = kMultiStep, .by_step = true});
  expect_rates("exponential", {.schedule = ExponentialSchedule{.gamma = 0.8}});
  expect_rates("cosine", {.schedule = kCosine});
  expect_rates("linear", {.schedule = kLinear});
  expect_rates("onecycle", {.schedule = OneCycleSchedule{.max_lr = 0.5, .total_steps = 12}, .by_step = true});
}

TEST(Scheduler, WarmsUpAsPyTorchsSequence) {
  expect_rates("warm step", {.schedule = kStep, .warmup = 4});
  expect_rates("warm multistep", {.schedule = kMultiStep, .warmup = 4});
  expect_rates("warm cosine", {.schedule = kCosine, .warmup = 4});
  expect_rates("warm linear", {.schedule = kLinear, .warmup = 4});
}

TEST(Scheduler, LowersTheRateOnAPlateauAsPyTorch) {
  expect_rates("plateau min",
               {.schedule = PlateauSchedule{.factor = 0.5, .patience = 1, .cooldown = 2, .min_lr = 0.01}});
  expect_rates("plateau max", {.schedule = PlateauSchedule{.wants_max = true, .patience = 0}});
}

TEST(Scheduler, RefusesNumbersThatMakeNoSense) {
  auto optimizer = sgd(0.1);
  auto without = sgd(0.1, 0);
  const auto refused = [&](const Schedule& schedule, torch::optim::Optimizer& with) {
    return message_of(ErrorKind::kRecipe, [&] { Scheduler({.schedule = schedule}, with); });
  };
  EXPECT_HAS(refused(StepSchedule{.step_size = 0}, optimizer), "step_size is 0, want at least 1");
  EXPECT_HAS(refused(MultiStepSchedule{.milestones = {3, 2}}, optimizer), "milestones go down");
  EXPECT_HAS(refused(OneCycleSchedule{}, optimizer), "max_lr is missing");
  EXPECT_HAS(refused(OneCycleSchedule{.max_lr = 1, .total_steps = 2}, optimizer), "leaves no step to rise");
  EXPECT_HAS(refused(OneCycleSchedule{.max_lr = 1, .total_steps = 10}, without), "the optimizer has none");
  Scheduler plateau({.schedule = PlateauSchedule{}}, optimizer);
  EXPECT_HAS(message_of(ErrorKind::kRecipe,
                        [&] {
                          plateau.observe({{"val_accuracy", 1}});
                        }),
             "plateau waits for 'val_loss', and validation gave val_accuracy");
}

TEST(LossScaler, GoesThroughPyTorchsScales) {
  LossScaler scaler{c10::Device(c10::kCPU)};
  EXPECT_EQ(scaler.scaled(at::ones({}) * 2).item<double>(), 2 * 65536.0);
  const auto step = [](LossScaler& each, bool is_finite) {
    auto gradient = at::full({2}, 3.0 * each.scale());
    if (!is_finite) gradient[1] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(each.unscale({gradient}), is_finite);
    if (is_finite) {
      EXPECT_EQ(gradient[0].item<double>(), 3.0);
    }
  };
  for (int i = 0; i < 1995; ++i) step(scaler, true);
  for (std::size_t i = 0; i < golden().at("scaler").at("scale").size(); ++i) {
    LossScaler resumed{c10::Device(c10::kCPU)};
    resumed.restore(scaler.state());
    const bool is_finite = golden()["scaler"]["finite"][i];
    step(scaler, is_finite);
    step(resumed, is_finite);
    EXPECT_EQ(scaler.scale(), golden()["scaler"]["scale"][i].get<double>()) << i;
    EXPECT_EQ(resumed.scale(), scaler.scale()) << i;
  }
}

TEST(Precision, IsKnownByNameAndRefusedWhereTheDeviceHasItNot) {
  for (const char* name : {"fp64", "fp32", "tf32", "bf16", "fp16"}) {
    EXPECT_EQ(precision_name(precision_named(name)), name);
  }
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [] { precision_named("fp8"); }), "trainer.precision is 'fp8', want");
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [] { require_precision(Precision::kTf32, c10::Device(c10::kCPU), "CPU"); }),
             "tf32, which the device cpu has not");
}

// Returns batch b, which is used in step b. Two batches make an epoch, and each epoch has other batches.
struct Batches : SampleSource {
  std::int64_t size() const override { return 10; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return std::to_string(id); }
  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const std::int64_t b = 2 * key.epoch + key.id / 5;
    const std::int64_t r = key.id % 5;
    for (std::int64_t c = 0; c < 4; ++c) {
      reinterpret_cast<float*>(to[0])[c] = static_cast<float>((3 * r + 5 * c + 2 * b) % 7 - 3) / 4;
    }
    *reinterpret_cast<std::int64_t*>(to[1]) = (r + b) % 3;
  }

  std::vector<Field> fields_ = {{"input", "F32", {4}}, {"target", "I64", {}}};
};

struct Data : DataModule {
  std::unique_ptr<Loader> train_loader(Shard shard) override {
    return std::make_unique<Loader>(std::make_shared<Batches>(),
                                    LoaderOptions{.global_batch = 5, .shard = shard, .shuffle = false});
  }
  std::unique_ptr<Loader> validation_loader(Shard shard) override { return train_loader(shard); }
};

struct Net : Module {
  explicit Net(at::ScalarType type_) : type(type_) {
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
    to(type);
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters().size(); ++i) {
      const auto k = at::arange(parameters()[i].numel(), at::kDouble);
      parameters()[i].view({-1}).copy_(((7 * k + 3 * static_cast<double>(i)).fmod(11) - 5) / 10);
    }
  }
  at::Tensor training_step(const Batch& batch) override {
    return at::cross_entropy_loss(fc2(torch::tanh(fc1(batch.input().to(type)))), batch.target());
  }
  void validation_step(const Batch& batch) override {
    log("val_loss", training_step(batch));
    seen = fc2->weight.detach().clone();
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5, .momentum = 0.9});
  }

  at::ScalarType type;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
  at::Tensor seen;  ///< fc2's weight in the last validation.
};

double largest_difference(const at::Tensor& tensor, const json& wanted) {
  const auto values = wanted.get<std::vector<double>>();
  return (tensor.detach().to(at::kDouble).flatten() - at::tensor(values, at::kDouble)).abs().max().item<double>();
}

struct Run {
  std::string name;
  StepOptions step{};
  double tolerance = 1e-12;
  std::optional<WeightAverageOptions> average{};
};

void expect_run(const Run& run) {
  auto group = join(Placement{}, Environment{});
  Net net(weights_type(run.step.precision));
  Data data;
  testing::StepLosses losses;
  Trainer trainer({.max_epochs = 4, .log_every = 1, .step = run.step});
  trainer.add(losses);
  std::optional<WeightAverage> average;
  if (run.average) trainer.add(average.emplace(*run.average));
  trainer.fit(net, data, group);
  const auto& wanted = golden().at("runs").at(run.name);
  if (run.step.accumulate == 1) {
    const auto values = wanted.at("losses").get<std::vector<double>>();
    ASSERT_EQ(losses.values.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(losses.values[i], values[i], run.tolerance) << run.name << " at step " << i;
    }
  }
  EXPECT_LT(largest_difference(net.fc2->weight, wanted.at("weight")), run.tolerance) << run.name;
  if (run.name != "fp64" && run.name != "ema" && run.name != "swa") {
    EXPECT_GT(largest_difference(net.fc2->weight, golden()["runs"]["fp64"]["weight"]), 1e-9) << run.name << " is blind";
  }
  if (!average) return;
  EXPECT_LT(largest_difference(net.seen, wanted.at("average")), run.tolerance) << run.name;
  EXPECT_GT(largest_difference(net.seen, wanted.at("weight")), 1e-3) << run.name << " is blind";
}

constexpr auto kFp64 = Precision::kFp64;

TEST(TrainerOptions, PrecisionsGivePyTorchsLosses) {
  expect_run({.name = "fp64", .step = {.precision = kFp64}});
  expect_run({.name = "fp32", .step = {}, .tolerance = 1e-6});
  // Results in narrow types differ between processors, since oneDNN's kernels need instructions that some processors
  // lack. ATen's kernels run there instead.
  expect_run({.name = "bf16", .step = {.precision = Precision::kBf16}, .tolerance = 2e-2});
  expect_run({.name = "fp16", .step = {.precision = Precision::kFp16}, .tolerance = 2e-3});
}

TEST(TrainerOptions, ClippingAndAccumulationGivePyTorchsLosses) {
  expect_run({.name = "clip_value", .step = {.precision = kFp64, .clip_value = 0.02}});
  expect_run({.name = "clip_norm", .step = {.precision = kFp64, .clip_norm = 0.05}});
  expect_run({.name = "accumulate", .step = {.precision = kFp64, .accumulate = 2}});
}

TEST(TrainerOptions, AveragedWeightsArePyTorchsAndWhatValidationSees) {
  expect_run({.name = "ema", .step = {.precision = kFp64}, .average = WeightAverageOptions{.decay = 0.7}});
  expect_run({.name = "swa", .step = {.precision = kFp64}, .average = WeightAverageOptions{}});
}

}  // namespace
}  // namespace lockstep
