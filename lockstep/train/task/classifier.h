// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/train/confusion_matrix.h"
#include "lockstep/train/task/network_task.h"

namespace lockstep {

/// A network that tells classes apart, trained by cross entropy: what most built-in recipes train. Bytes are scaled to
/// [0, 1] and, where asked, normalised.
class Classifier : public NetworkTask {
 public:
  Classifier(std::shared_ptr<Network> network, std::int64_t classes, TaskOptions options = {});

  at::Tensor training_step(const Batch& batch) override;
  /// Logs "val_loss" and "val_accuracy", from 6 classes on also "val_top5".
  void validation_step(const Batch& batch) override;
  /// Shape: the classes' probabilities, [N, classes].
  at::Tensor predict_step(const Batch& batch) override;
  std::unique_ptr<Module> replica() const override {
    return std::make_unique<Classifier>(another_network(), classes_, options());
  }
  void on_validation_start() override { confusion_.clear(); }
  /// "val_f1", the mean over classes.
  std::map<std::string, double> on_validation_end(Group& group, const std::map<std::string, double>& means) override;

  /// Shape: [N, classes].
  at::Tensor logits(const Batch& batch);
  /// Of the last validation, this rank's part.
  const ConfusionMatrix& confusion() const { return confusion_; }

 private:
  at::Tensor prepared(const Batch& batch);
  at::Tensor mixed_loss(const Batch& batch);

  std::int64_t classes_;
  at::Tensor scale_;  ///< x·scale + shift is a byte as the network wants it; undefined without normalisation.
  at::Tensor shift_;
  ConfusionMatrix confusion_;
};

}  // namespace lockstep
