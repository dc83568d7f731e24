// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"

namespace lockstep {

/// The Python that hosts this process.
class ThisPython final : public PythonHost {
 public:
  std::shared_ptr<Network> network(const Recipe& recipe, const NetworkOptions& options) override;
};

}  // namespace lockstep
