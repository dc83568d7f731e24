// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The base of modules that train a built-in network, with its optimizer, schedule and normalisation.
///
///     lockstep::TaskOptions options;
///     options.optimizer = {.name = "sgd", .lr = 0.1, .momentum = 0.9};
///     options.schedule = [](const lockstep::TrainingPlan& plan) {
///       return lockstep::ScheduleOptions{.schedule = lockstep::CosineSchedule{.t_max = plan.steps}, .by_step = true};
///     };
///     auto net = lockstep::make_network({.name = "cnn", .input_shape = {1, 28, 28}});
///     lockstep::Classifier classifier(net, 10, options);

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/transform/transform.h"
#include "lockstep/models/network.h"
#include "lockstep/train/module.h"
#include "lockstep/train/optim/optimizer.h"
#include "lockstep/train/optim/parameter_groups.h"
#include "lockstep/train/task/own_steps.h"

namespace lockstep {

/// The options for training a built-in network.
struct TaskOptions {
  OptimizerSettings optimizer{};
  std::vector<ParameterGroup> groups{};
  std::function<ScheduleOptions(const TrainingPlan&)> schedule{};  ///< If empty, rates are constant.
  at::ScalarType type = at::kFloat;                                ///< Type of weights and arithmetic.
  std::optional<Normalisation> normalisation{};                    ///< Normalises images.
  Mixing mixing{};                                                 ///< Mixes the samples of a training batch.
  double label_smoothing = 0;
  /// Returns the mean loss over samples. If set, it replaces the task's own loss. Shape: returns [].
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)> loss{};
  std::uint64_t seed = 0;  ///< Seed of the mixing.
  /// Further metrics of validation by name, each a mean over the batch's samples, of the output in float64.
  /// Shape: returns [] or [N].
  std::map<std::string, std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>> metrics{};
  std::function<std::shared_ptr<Network>()> rebuild{};  ///< Makes the network once more, for strategy "dp".
  /// True if the network does the same for every input of a shape and reads no tensor's numbers, so that a device may
  /// record it. If false, Network::why_not_recorded() decides.
  bool is_recordable = false;
};

/// A module that trains a network. The network's weights keep the names that other programs know. The steps and the
/// optimizer of a network that is WithOwnSteps come before those of the task.
class NetworkTask : public Module {
 public:
  void train(bool on = true) override;
  void on_fit_start(const TrainingPlan& plan) override;
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override;
  ScheduleOptions configure_schedule(const TrainingPlan& plan) override;
  std::string why_not_recorded() const override;

  /// Lays out images and the weights of convolutions with the channels last. GPUs compute this fastest in narrow types.
  /// Snapshots are the same either way.
  void use_channels_last();

 protected:
  bool is_channels_last() const { return is_channels_last_; }
  NetworkTask(std::shared_ptr<Network> network, TaskOptions options);

  const TaskOptions& options() const { return options_; }
  /// Makes another instance of the network, for strategy "dp". Throws: Error(kUsage) if there is no
  /// TaskOptions::rebuild.
  std::shared_ptr<Network> another_network() const;
  /// Returns the network's logits. Shape: as Network::forward().
  at::Tensor scores(const at::Tensor& input) { return network_->forward(input); }

  bool trains_itself() const { return own_ != nullptr && own_->has_training_step(); }
  bool validates_itself() const { return own_ != nullptr && own_->has_validation_step(); }
  /// Calls the network's own step, and logs what it logs. `input` is the batch's, as the network gets it.
  at::Tensor own_training_step(const Batch& batch, at::Tensor input);
  /// Logs "val_loss" too, if the step returns a loss and does not log it.
  void own_validation_step(const Batch& batch, at::Tensor input);
  /// Logs TaskOptions::metrics.
  void log_metrics(const at::Tensor& output, const at::Tensor& target);

 private:
  const OwnSteps::Optimizer& own_optimizer();
  OwnSteps::Data own_data(const Batch& batch, at::Tensor input) const;

  std::shared_ptr<Network> network_;
  TaskOptions options_;
  OwnSteps* own_ = nullptr;  ///< The network's.
  std::optional<OwnSteps::Optimizer> own_optimizer_;
  bool is_channels_last_ = false;
};

}  // namespace lockstep
