// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/device/streams.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/train/fit/trainer_options.h"
#include "lockstep/train/precision.h"

namespace lockstep {

/// While an object of this class lives, operations that have no deterministic algorithm throw.
class DeterministicScope {
 public:
  explicit DeterministicScope(bool is_on);
  ~DeterministicScope();
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool is_on_;
  bool fills_before_ = true;
};

/// While an object of this class lives, cuDNN and MIOpen time their algorithms for each new shape and keep the fastest.
class KernelSearchScope {
 public:
  explicit KernelSearchScope(bool is_on);
  ~KernelSearchScope();
  KernelSearchScope(const KernelSearchScope&) = delete;
  KernelSearchScope& operator=(const KernelSearchScope&) = delete;

 private:
  bool before_;
};

/// The settings of the process that a training changes while it runs: signals, arithmetic, choice of algorithms, and
/// the device's stream.
class RunScopes {
 public:
  RunScopes(const StepOptions& options, const RankDevice& device);

 private:
  StopSignals signals_;
  Tf32Scope tf32_;
  DeterministicScope deterministic_;
  ComputeStreamScope stream_;
  KernelSearchScope search_;
};

}  // namespace lockstep
