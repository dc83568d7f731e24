// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/transform/transform.h"
#include "lockstep/models/network.h"
#include "lockstep/train/module.h"
#include "lockstep/train/optim/optimizer.h"
#include "lockstep/train/optim/parameter_groups.h"

namespace lockstep {

/// How a built-in network is trained.
struct TaskOptions {
  OptimizerSettings optimizer{};
  std::vector<ParameterGroup> groups{};
  std::function<ScheduleOptions(const TrainingPlan&)> schedule{};  ///< Empty: rates stay.
  at::ScalarType type = at::kFloat;                                ///< Of weights and arithmetic.
  std::optional<Normalisation> normalisation{};                    ///< Of images.
  Mixing mixing{};                                                 ///< Of a training batch's samples.
  double label_smoothing = 0;
  std::uint64_t seed = 0;                               ///< Of the mixing.
  std::function<std::shared_ptr<Network>()> rebuild{};  ///< Makes the network once more, for strategy "dp".
  /// The network does the same for every input of a shape and reads no tensor's numbers: a device may record it. Where
  /// this is not known, the network is asked.
  bool is_recordable = false;
};

/// A built-in network with what is learnt from it. The network's weights keep the names that other programs know.
class NetworkTask : public Module {
 public:
  void train(bool on = true) override;
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override;
  ScheduleOptions configure_schedule(const TrainingPlan& plan) override;
  std::string why_not_recorded() const override;

  /// Lays weights of convolutions out with the channels last, and images before them: what GPUs compute fastest in
  /// narrow types. Snapshots are the same either way.
  void use_channels_last();

 protected:
  bool is_channels_last() const { return is_channels_last_; }
  NetworkTask(std::shared_ptr<Network> network, TaskOptions options);

  const TaskOptions& options() const { return options_; }
  /// Throws: Error(kUsage) where there is no rebuild().
  std::shared_ptr<Network> another_network() const;
  /// Shape: as Network::forward().
  at::Tensor scores(const at::Tensor& input) { return network_->forward(input); }

 private:
  std::shared_ptr<Network> network_;
  TaskOptions options_;
  bool is_channels_last_ = false;
};

}  // namespace lockstep
