// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/optim/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using Tensors = std::vector<at::Tensor>;
using testing::message_of;

// As numbers() in tests/golden/optimizers/make.py.
at::Tensor numbers(const std::vector<std::int64_t>& shape, std::int64_t seed, at::ScalarType type) {
  auto out = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.data_ptr<double>()[i] = static_cast<double>((i * 37 + seed * 11) % 101 - 50) / 64;
  }
  return out.to(type);
}

Json golden() {
  return Json::parse(text_of_file(lockstep::testing::source_root() / "tests/golden/optimizers/optimizers.json"));
}

OptimizerSettings settings_of(const Json& row) {
  const auto& options = row.at("options");
  OptimizerSettings settings;
  settings.name = row.at("name");
  settings.lr = options.at("lr");
  settings.weight_decay = options.value("weight_decay", settings.name == "adamw" ? 0.01 : 0.0);
  settings.momentum = options.value("momentum", 0.0);
  settings.dampening = options.value("dampening", 0.0);
  settings.nesterov = options.value("nesterov", false);
  settings.betas = options.value("betas", settings.betas);
  settings.eps = options.value("eps", settings.eps);
  settings.amsgrad = options.value("amsgrad", false);
  return settings;
}

Tensors fresh_parameters(const Json& all, at::ScalarType type) {
  Tensors parameters;
  for (const auto& shape : all.at("shapes")) {
    const auto seed = static_cast<std::int64_t>(parameters.size());
    parameters.push_back(numbers(shape.get<std::vector<std::int64_t>>(), seed, type).requires_grad_());
  }
  return parameters;
}

// Sets the gradients of step `step` as make.py does: one parameter gets its first gradient late, and one never gets
// any.
void set_gradients(Tensors& parameters, const Json& all, std::int64_t step) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (p == all.at("never") || (p == all.at("late") && step < 2)) continue;
    const auto shape = parameters[p].sizes().vec();
    parameters[p].mutable_grad() =
        numbers(shape, 10 * (step + 1) + static_cast<std::int64_t>(p), parameters[p].scalar_type());
  }
}

void expect_near(const at::Tensor& ours, const Json& wanted, double relative, const std::string& where) {
  const auto flat = ours.detach().to(at::kDouble).flatten().contiguous();
  ASSERT_EQ(static_cast<std::size_t>(flat.numel()), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double want = wanted[i];
    EXPECT_NEAR(flat.data_ptr<double>()[i], want, relative * std::max(std::abs(want), 1e-1)) << where << " #" << i;
  }
}

void run_golden_cases(const std::string& type_name, at::ScalarType type, double relative) {
  const auto all = golden();
  for (const auto& row : all.at("cases")) {
    auto parameters = fresh_parameters(all, type);
    const auto optimizer = make_optimizer(parameters, settings_of(row));
    for (std::int64_t step = 0; step < all.at("steps"); ++step) {
      optimizer->zero_grad();
      set_gradients(parameters, all, step);
      optimizer->step();
    }
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      expect_near(
          parameters[p], row.at(type_name).at(p), relative,
          row.at("name").get<std::string>() + " " + row.at("options").dump() + " parameter " + std::to_string(p));
    }
  }
}

TEST(FusedOptimizers, EqualPyTorchsOwnInFloat32) { run_golden_cases("float32", at::kFloat, 1e-6); }

TEST(FusedOptimizers, EqualPyTorchsOwnInFloat64) { run_golden_cases("float64", at::kDouble, 1e-12); }

TEST(FusedOptimizers, LeaveAParameterWithoutAGradientAndItsStateAlone) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    OptimizerSettings settings{.name = name, .weight_decay = 0.5, .momentum = 0.9};
    auto used = at::ones({3}).requires_grad_();
    auto unused = at::ones({3}).requires_grad_();
    const auto optimizer = make_optimizer({used, unused}, settings);
    used.mutable_grad() = at::ones({3});
    optimizer->step();
    EXPECT_FALSE(at::equal(used, at::ones({3}))) << name;
    EXPECT_TRUE(at::equal(unused, at::ones({3}))) << name;
    EXPECT_EQ(optimizer->state().count(unused.unsafeGetTensorImpl()), 0U) << name;
  }
}

TEST(FusedOptimizers, WithoutAnyGradientDoNothing) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    auto parameter = at::ones({3}).requires_grad_();
    make_optimizer({parameter}, {.name = name, .momentum = 0.9})->step();
    EXPECT_TRUE(at::equal(parameter, at::ones({3}))) << name;
  }
}

TEST(FusedSgd, EqualsLibTorchsOwnOverManySteps) {
  torch::manual_seed(1);
  const auto start = at::randn({40, 7}, at::kDouble);
  const auto options = torch::optim::SGDOptions(0.03).momentum(0.9).weight_decay(1e-3).nesterov(true);
  auto ours = start.clone().requires_grad_();
  auto theirs = start.clone().requires_grad_();
  FusedSGD fused({ours}, options);
  torch::optim::SGD plain({theirs}, options);
  for (int step = 0; step < 50; ++step) {
    const auto gradient = at::randn_like(start);
    ours.mutable_grad() = gradient.clone();
    theirs.mutable_grad() = gradient.clone();
    fused.step();
    plain.step();
  }
  EXPECT_LT((ours - theirs).abs().max().item<double>(), 1e-13);
}

TEST(FusedOptimizers, CallTheClosureWithGradientsOn) {
  auto parameter = at::full({1}, 3.0).requires_grad_();
  const auto optimizer = make_optimizer({parameter}, {.name = "sgd", .lr = 0.5});
  const auto loss = optimizer->step([&] {
    optimizer->zero_grad();
    auto value = (parameter * parameter).sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<float>(), 9.0F);
  EXPECT_EQ(parameter.item<float>(), 0.0F);
}

TEST(FusedOptimizers, MoveATiedParameterOnce) {
  auto parameter = at::ones({2}).requires_grad_();
  const auto optimizer = make_optimizer({parameter, parameter}, {.name = "sgd", .lr = 0.25});
  parameter.mutable_grad() = at::ones({2});
  optimizer->step();
  EXPECT_TRUE(at::equal(parameter, at::full({2}, 0.75)));
}

TEST(FusedAdam, TakesAmsgradUpInMidRun) {
  auto parameter = at::ones({2}).requires_grad_();
  FusedAdam optimizer({parameter}, torch::optim::AdamOptions(0.1));
  parameter.mutable_grad() = at::ones({2});
  optimizer.step();
  static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options()).amsgrad(true);
  optimizer.step();
  EXPECT_TRUE(parameter.isfinite().all().item<bool>());
}

TEST(MakeOptimizer, GivesEachGroupSettingsOfItsOwn) {
  const auto weight = at::ones({2}).requires_grad_();
  const auto bias = at::ones({1}).requires_grad_();
  const auto made = make_optimizer(std::vector<OptimizerGroup>{
      {{weight}, {.name = "adam", .lr = 0.1, .weight_decay = 0.5}},
      {{bias}, {.name = "adam", .lr = 0.2, .betas = {0.5, 0.6}, .eps = 1e-3, .amsgrad = true}}});
  EXPECT_NE(dynamic_cast<FusedAdam*>(made.get()), nullptr);
  ASSERT_EQ(made->param_groups().size(), 2U);
  const auto& first = static_cast<const torch::optim::AdamOptions&>(made->param_groups()[0].options());
  const auto& second = static_cast<const torch::optim::AdamOptions&>(made->param_groups()[1].options());
  EXPECT_EQ(std::tuple(first.lr(), first.weight_decay(), first.amsgrad()), std::tuple(0.1, 0.5, false));
  EXPECT_EQ(std::tuple(second.lr(), second.weight_decay(), second.eps(), second.amsgrad()),
            std::tuple(0.2, 0.0, 1e-3, true));
  EXPECT_EQ(second.betas(), std::tuple(0.5, 0.6));
  EXPECT_TRUE(made->param_groups()[1].params()[0].is_same(bias));
}

TEST(MakeOptimizer, NamesWhatItWantsForAnUnknownName) {
  const auto text = message_of(ErrorKind::kRecipe, [] { make_optimizer({at::ones({1})}, {.name = "lion"}); });
  EXPECT_HAS(text, "optimizer.name is 'lion', want sgd, adam or adamw");
}

TEST(MakeOptimizer, PassesOnWhyPyTorchRefusesAValue) {
  const auto refused = [](const OptimizerSettings& settings) {
    return message_of(ErrorKind::kRecipe, [&] { make_optimizer({at::ones({1}).requires_grad_()}, settings); });
  };
  EXPECT_HAS(refused({.name = "sgd", .lr = -1}), "Invalid learning rate: -1");
  EXPECT_HAS(refused({.name = "adam", .betas = {1.5, 0.9}}), "1.5");
  EXPECT_HAS(refused({.name = "sgd", .nesterov = true}), "Nesterov");
}

}  // namespace
}  // namespace lockstep
