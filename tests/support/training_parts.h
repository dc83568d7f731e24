// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "lockstep/train/fit/loss_counter.h"
#include "lockstep/train/fit/participants.h"
#include "lockstep/train/fit/sanity_check.h"
#include "lockstep/train/fit/step_runner.h"
#include "lockstep/train/fit/validator.h"
#include "tests/support/made_up_data.h"

namespace lockstep::testing {

/// The parts that a training is made of, connected, for a test of one of them.
template <typename Net>
struct TrainingParts {
  TrainingParts(Group& group_of_ranks, MadeUpData made_up, TrainerOptions with = {})
      : group(group_of_ranks), options(std::move(with)), data(std::move(made_up)) {
    model.connect(options.step.parallel);
  }

  Group& group;
  TrainerOptions options;
  MadeUpData data;
  Net net;
  std::vector<Listener*> listeners;
  std::vector<Extension*> extensions;
  Participants participants{listeners, extensions};
  TrainingData training_data{data, options, group};
  TrainedModel model{net, group, options.step, training_plan(options, training_data)};
  ForwardPass forward{net, group, options, training_data};
  LossCounter losses{group};
};

}  // namespace lockstep::testing
