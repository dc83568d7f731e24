// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/module.h"

namespace lockstep {

void Module::validation_step(const Batch&) {}

ScheduleOptions Module::configure_schedule(const TrainingPlan&) { return {}; }

void Module::log(const std::string& name, const at::Tensor& value) { metrics_.add(name, value.item<double>()); }

void Module::log(const std::string& name, double value) { metrics_.add(name, value); }

}  // namespace lockstep
