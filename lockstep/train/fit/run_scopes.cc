// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/run_scopes.h"

#include <ATen/Context.h>

namespace lockstep {

DeterministicScope::DeterministicScope(bool is_on) : is_on_(is_on) {
  if (!is_on_) return;
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  // Deterministic mode also fills new tensors, to expose reads of uninitialized memory. That costs a kernel for each
  // tensor and changes no result, so it is turned off.
  fills_before_ = at::globalContext().deterministicFillUninitializedMemory();
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

DeterministicScope::~DeterministicScope() {
  if (!is_on_) return;
  at::globalContext().setDeterministicAlgorithms(false, false);
  at::globalContext().setDeterministicCuDNN(false);
  at::globalContext().setDeterministicFillUninitializedMemory(fills_before_);
}

KernelSearchScope::KernelSearchScope(bool is_on) : before_(at::globalContext().benchmarkCuDNN()) {
  if (is_on) at::globalContext().setBenchmarkCuDNN(true);
}

KernelSearchScope::~KernelSearchScope() { at::globalContext().setBenchmarkCuDNN(before_); }

RunScopes::RunScopes(const StepOptions& options, const RankDevice& device)
    : tf32_(options.precision),
      deterministic_(options.device.deterministic),
      stream_(device.device),
      search_(!device.is_cpu() && !options.device.deterministic) {}

}  // namespace lockstep
