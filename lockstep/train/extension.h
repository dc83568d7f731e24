// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/snapshot/snapshot.h"

namespace lockstep {

class Module;

/// Takes part in a training with its tensors, where a Listener only hears of it: averages of weights, histograms.
/// Every rank has the same ones, and each call comes on every rank at the same step.
class Extension {
 public:
  virtual ~Extension() = default;
  /// Opens the names of what it saves: "ema".
  virtual std::string name() const = 0;

  /// The weights are in place, a snapshot's too. `module` outlives the training.
  virtual void start(Module& module) = 0;
  /// The weights have been moved; `state.step` counts that step.
  virtual void after_step(const TrainingState& state) = 0;
  /// The epoch's steps are done; validation comes next. `state.epoch` is still its number.
  virtual void after_epoch(const TrainingState&) {}
  /// Whatever they change in the module between them is undone by the second.
  virtual void before_validation() {}
  virtual void after_validation() {}
  /// A claim: what before_validation() put in place has no BatchNorm statistics of its own yet, so that they should be
  /// taken from the training data.
  virtual bool wants_fresh_statistics() const { return false; }

  /// What a snapshot keeps of it, and takes back before start().
  virtual std::vector<SavedTensor> saved() const { return {}; }
  virtual void restore(const std::map<std::string, at::Tensor>&) {}
};

}  // namespace lockstep
