// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/observe/events.h"

namespace lockstep::testing {

/// A listener that keeps the loss of each step. The trainer must log every step.
struct StepLosses : Listener {
  using Listener::on;
  std::string name() const override { return "losses"; }
  Verdict on(const StepEnded& event) override {
    values.push_back(event.loss.value());
    return Verdict::kContinue;
  }
  std::vector<double> values;
};

}  // namespace lockstep::testing
