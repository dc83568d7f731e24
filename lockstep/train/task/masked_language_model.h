// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/train/task/network_task.h"

namespace lockstep {

/// A network that fills in the masked bytes of a text. The loss of a sample is the mean over its masked positions. Each
/// sample has the same weight, on whichever rank it is.
class MaskedLanguageModel : public NetworkTask {
 public:
  explicit MaskedLanguageModel(std::shared_ptr<Network> network, TaskOptions task = {})
      : NetworkTask(std::move(network), std::move(task)) {}

  at::Tensor training_step(const Batch& batch) override;
  /// Logs "val_loss" (nats for each masked position) and "val_accuracy" of masked positions.
  void validation_step(const Batch& batch) override;
  /// Throws: Error(kUsage), since a text has no row of numbers to predict.
  at::Tensor predict_step(const Batch& batch) override;
  std::unique_ptr<Module> replica() const override {
    return std::make_unique<MaskedLanguageModel>(another_network(), options());
  }
  /// Returns "val_perplexity", which is e to the val_loss.
  std::map<std::string, double> on_validation_end(Group& group, const std::map<std::string, double>& means) override;
};

}  // namespace lockstep
