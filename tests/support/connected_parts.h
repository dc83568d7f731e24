// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "lockstep/train/fit/participants.h"
#include "lockstep/train/fit/sanity_check.h"
#include "lockstep/train/fit/validator.h"
#include "tests/support/training_parts.h"

namespace lockstep::testing {

/// This is made before the parts, since they refer to it.
template <typename Net>
struct OwnNet {
  Net net;
};

/// The parts of a training with a network of their own, connected, and with listeners and extensions.
template <typename Net>
struct ConnectedParts : OwnNet<Net>, TrainingParts {
  ConnectedParts(Group& group_of_ranks, MadeUpData made_up_, TrainerOptions with = {})
      : TrainingParts(OwnNet<Net>::net, group_of_ranks, std::move(with), std::move(made_up_)), group(group_of_ranks) {
    connect();
  }

  Group& group;
  std::vector<Listener*> listeners;
  std::vector<Extension*> extensions;
  Participants participants{listeners, extensions};
};

}  // namespace lockstep::testing
