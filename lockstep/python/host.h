// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"

namespace lockstep {

/// The interface to the Python interpreter in which this process runs.
class ThisPython final : public PythonHost {
 public:
  std::shared_ptr<Network> network(const Recipe& recipe, const NetworkOptions& options) override;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> loss(const Recipe& recipe) override;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> metric(const Recipe& recipe,
                                                                         const std::string& key) override;
  std::string executable() const override;
};

}  // namespace lockstep
