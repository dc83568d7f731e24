// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/recipe/recipe.h"
#include "lockstep/train/fit/trainer.h"

namespace lockstep {

/// Returns the options of [scheduler] for a training of this length.
ScheduleOptions schedule_of(const Recipe& recipe, const TrainingPlan& plan);

}  // namespace lockstep
