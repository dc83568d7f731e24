// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The interface of objects that take part in a training with their own tensors, such as averages of weights.
///
///     struct FreezeAfter : lockstep::Extension {
///       std::string name() const override { return "freeze"; }
///       void start(lockstep::Module& module) override { module_ = &module; }
///       void after_step(const lockstep::TrainingState& state) override {
///         if (state.step == 1000) module_->parameters().front().set_requires_grad(false);
///       }
///       lockstep::Module* module_ = nullptr;
///     };

#include <map>
#include <string>
#include <vector>

#include "lockstep/snapshot/snapshot.h"

namespace lockstep {

class Module;

/// An object that takes part in a training and may read and change its tensors. Examples are averages of weights, and
/// histograms. A Listener, in contrast, only gets events. Every rank has the same extensions, and each call comes on
/// every rank at the same step.
class Extension {
 public:
  virtual ~Extension() = default;
  /// Returns the prefix of the names of this extension's saved tensors, such as "ema".
  virtual std::string name() const = 0;

  /// Called when the initial weights are set, after a resume too, and again after each rollback to a snapshot. `module`
  /// outlives the training.
  virtual void start(Module& module) = 0;
  /// Called after an update of the weights. `state.step` counts that step.
  virtual void after_step(const TrainingState& state) = 0;
  /// Called once after the epoch's steps, before validation. `state.epoch` is still the number of that epoch.
  virtual void after_epoch(const TrainingState&) {}
  /// Called around each validation, and each time fresh statistics are taken. after_validation() undoes all changes
  /// that before_validation() made in the module, also after an exception.
  virtual void before_validation() {}
  virtual void after_validation() {}
  /// True if the weights that before_validation() puts in place have no BatchNorm statistics yet. They are then
  /// computed from the training data before a validation, before a snapshot and when the training ends, unless a stop
  /// signal comes first.
  virtual bool wants_fresh_statistics() const { return false; }
  /// Called between the two when the module's buffers hold these statistics.
  virtual void keep_statistics() {}

  /// Returns the tensors for a snapshot. restore() takes them back before start(). They are written while training
  /// continues, so only calls to this class may change them. Those calls wait until a save has copied them.
  virtual std::vector<SavedTensor> saved() const { return {}; }
  virtual void restore(const std::map<std::string, at::Tensor>&) {}
};

}  // namespace lockstep
