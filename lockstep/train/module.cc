// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/module.h"

#include "lockstep/base/error.h"

namespace lockstep {

void Module::validation_step(const Batch&) {}

std::map<std::string, double> Module::on_validation_end(Group&, const std::map<std::string, double>&) { return {}; }

at::Tensor Module::predict_step(const Batch&) {
  throw Error(ErrorKind::kUsage, "this module makes no predictions", "override predict_step()");
}

ScheduleOptions Module::configure_schedule(const TrainingPlan&) { return {}; }

void Module::log(const std::string& name, const at::Tensor& value) { metrics_.add(name, value); }

void Module::log(const std::string& name, double value) { metrics_.add(name, value); }

std::string Module::why_not_recorded() const {
  return "the module does not say that its training_step() can be (Module::why_not_recorded)";
}

std::unique_ptr<Module> Module::replica() const {
  throw Error(ErrorKind::kUsage, "strategy dp trains copies of the module, and it makes none",
              "override Module::replica(), or use strategy ddp");
}

}  // namespace lockstep
