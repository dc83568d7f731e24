// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Optimizers by name, with PyTorch's settings and one fused kernel for all parameters.
///
///     auto adamw = lockstep::make_optimizer(net->parameters(), {.name = "adamw", .lr = 3e-4, .weight_decay = 0.01});
///     adamw->zero_grad();
///     loss.backward();
///     adamw->step();

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/train/optim/device_update.h"

namespace lockstep {

/// These are LibTorch's optimizers with one fused kernel for all parameters. Options and state are those of the base
/// class, so snapshots, schedulers and PyTorch's state_dict names fit.

class FusedSGD : public torch::optim::SGD, public DeviceUpdate {
 public:
  using SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  torch::optim::Optimizer& optimizer() override { return *this; }
};

class FusedAdam : public torch::optim::Adam, public DeviceUpdate {
 public:
  using Adam::Adam;
  at::Tensor step(LossClosure closure = nullptr) override;
  void settle() override;
  void forget() override { counts_.clear(); }

 private:
  torch::optim::Optimizer& optimizer() override { return *this; }

  DeviceCounts<torch::optim::AdamParamState*> counts_;
};

class FusedAdamW : public torch::optim::AdamW, public DeviceUpdate {
 public:
  using AdamW::AdamW;
  at::Tensor step(LossClosure closure = nullptr) override;
  void settle() override;
  void forget() override { counts_.clear(); }

 private:
  torch::optim::Optimizer& optimizer() override { return *this; }

  DeviceCounts<torch::optim::AdamWParamState*> counts_;
};

/// The settings of an optimizer, with PyTorch's names and defaults.
struct OptimizerSettings {
  std::string name = "sgd";  ///< sgd adam adamw
  double lr = 1e-3;
  double weight_decay = 0;
  double momentum = 0;                         ///< sgd
  double dampening = 0;                        ///< sgd
  bool nesterov = false;                       ///< sgd
  std::array<double, 2> betas = {0.9, 0.999};  ///< adam, adamw
  double eps = 1e-8;                           ///< adam, adamw
  bool amsgrad = false;                        ///< adam, adamw
};

/// Makes an optimizer. A parameter that is given twice counts once.
/// Throws: Error(kRecipe) for an unknown name or values that PyTorch refuses.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<at::Tensor> parameters,
                                                        const OptimizerSettings& settings);

/// Parameters that an optimizer treats alike.
struct OptimizerGroup {
  std::vector<at::Tensor> parameters{};
  OptimizerSettings settings{};  ///< The name is that of the first group.
};

/// Makes an optimizer of several groups, each with settings of its own. The first group's are its defaults.
/// LOCKSTEP_ASSERT: there is a group. Throws: as above.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::vector<OptimizerGroup>& groups);

}  // namespace lockstep
