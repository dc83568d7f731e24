// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/trainer_options.h"

namespace lockstep {

TrainerOptions fast_dev_run(TrainerOptions options) {
  options.max_epochs = 1;
  options.max_steps = 0;
  options.log_every = 1;
  options.data.train_batches = 1;
  options.data.validation_batches = 1;
  options.snapshot = {};
  options.snapshot.every_epochs = 0;
  return options;
}

}  // namespace lockstep
