// SPDX-License-Identifier: Apache-2.0
#include "lockstep/python/steps.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/python/tensors.h"

namespace py = pybind11;

namespace lockstep {
namespace {

template <typename Value>
void take(const py::dict& from, const char* name, Value& value) {
  if (from.contains(name)) value = py::cast<Value>(from[name]);
}

OptimizerGroup group_of(const py::dict& given) {
  OptimizerGroup group;
  for (const auto each : given["params"]) group.parameters.push_back(to_tensor(each));
  auto& settings = group.settings;
  take(given, "name", settings.name);
  take(given, "lr", settings.lr);
  take(given, "weight_decay", settings.weight_decay);
  take(given, "momentum", settings.momentum);
  take(given, "dampening", settings.dampening);
  take(given, "nesterov", settings.nesterov);
  take(given, "betas", settings.betas);
  take(given, "eps", settings.eps);
  take(given, "amsgrad", settings.amsgrad);
  return group;
}

PlateauSchedule plateau_of(const py::dict& given) {
  PlateauSchedule plateau;
  take(given, "monitor", plateau.monitor);
  take(given, "wants_max", plateau.wants_max);
  take(given, "factor", plateau.factor);
  take(given, "patience", plateau.patience);
  take(given, "threshold", plateau.threshold);
  take(given, "cooldown", plateau.cooldown);
  take(given, "min_lr", plateau.min_lr);
  return plateau;
}

OwnSchedule own_schedule(py::object rates) {
  // Copies of a std::function share one Python object.
  const auto function = std::make_shared<PythonObject>(std::move(rates));
  return {.rates = [function](std::int64_t t) {
    return in_python([&] {
      std::vector<GroupRate> out;
      for (const auto each : (**function)(t)) {
        const auto [lr, momentum] = py::cast<std::pair<double, std::optional<double>>>(each);
        out.push_back({.lr = lr, .momentum = momentum});
      }
      return out;
    });
  }};
}

class PythonSteps final : public OwnSteps {
 public:
  PythonSteps(std::shared_ptr<PythonModule> module, PythonObject steps)
      : module_(std::move(module)),
        steps_(std::move(steps)),
        training_step_((*steps_).attr("training_step")),
        validation_step_((*steps_).attr("validation_step")),
        has_training_step_(py::cast<bool>((*steps_).attr("has_training_step"))),
        has_validation_step_(py::cast<bool>((*steps_).attr("has_validation_step"))),
        has_optimizer_(py::cast<bool>((*steps_).attr("has_optimizer"))) {}

  bool has_training_step() const override { return has_training_step_; }
  bool has_validation_step() const override { return has_validation_step_; }
  bool has_optimizer() const override { return has_optimizer_; }

  Result training_step(const Data& data) override {
    LOCKSTEP_ASSERT(has_training_step_);
    return called(training_step_, data, /*is_training=*/true);
  }

  Result validation_step(const Data& data) override {
    LOCKSTEP_ASSERT(has_validation_step_);
    return called(validation_step_, data, /*is_training=*/false);
  }

  void begin(const TrainingPlan& plan) override {
    in_python([&] { (*steps_).attr("begin")(plan.epochs, plan.steps_per_epoch, plan.steps, plan.batches_per_step); });
  }

  Optimizer optimizer() override {
    LOCKSTEP_ASSERT(has_optimizer_);
    return in_python([&] {
      const py::dict given = (*steps_).attr("optimizer")();
      Optimizer out;
      for (const auto each : given["groups"]) out.groups.push_back(group_of(py::cast<py::dict>(each)));
      const py::object schedule = given["schedule"];
      if (schedule.is_none()) return out;
      out.schedule.by_step = py::cast<bool>(schedule["by_step"]);
      if (schedule.contains("rates")) {
        out.schedule.schedule = own_schedule(schedule["rates"]);
      } else {
        out.schedule.schedule = plateau_of(py::cast<py::dict>(schedule["plateau"]));
      }
      return out;
    });
  }

 private:
  // Python gives (loss, [(name, value), …]), or None as the loss.
  Result called(const PythonObject& step, const Data& data, bool is_training) {
    return in_python([&] {
      module_->prepare(data.fields.front(), is_training);
      py::list fields(data.fields.size());
      for (std::size_t i = 0; i < data.fields.size(); ++i) fields[i] = to_python(data.fields[i]);
      const py::tuple told = (*step)(fields, data.epoch, data.index);
      Result result;
      if (is_tensor(told[0])) result.loss = to_tensor(told[0]);
      for (const auto each : py::list(told[1])) {
        const auto item = py::cast<py::tuple>(each);
        result.logged.emplace_back(py::cast<std::string>(item[0]), to_tensor(item[1]));
      }
      return result;
    });
  }

  std::shared_ptr<PythonModule> module_;
  PythonObject steps_;
  PythonObject training_step_;
  PythonObject validation_step_;
  bool has_training_step_;
  bool has_validation_step_;
  bool has_optimizer_;
};

}  // namespace

std::unique_ptr<OwnSteps> make_python_steps(std::shared_ptr<PythonModule> module, PythonObject steps) {
  return std::make_unique<PythonSteps>(std::move(module), std::move(steps));
}

}  // namespace lockstep
