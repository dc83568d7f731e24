// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A ready Module that trains a network to classify.
///
///     auto net = lockstep::make_network({.name = "cnn", .input_shape = {1, 28, 28}, .classes = 10});
///     lockstep::Classifier classifier(net, 10, {.optimizer = {.name = "adam", .lr = 3e-3}});
///     lockstep::Trainer trainer({.max_epochs = 5});
///     trainer.fit(classifier, data);

#include <memory>

#include "lockstep/train/confusion_matrix.h"
#include "lockstep/train/task/network_task.h"

namespace lockstep {

/// A network that classifies, trained by cross entropy. Most built-in recipes train one. Inputs of bytes are scaled to
/// [0, 1], and normalised if TaskOptions::normalisation is set.
class Classifier : public NetworkTask {
 public:
  Classifier(std::shared_ptr<Network> network, std::int64_t classes, TaskOptions options = {});

  at::Tensor training_step(const Batch& batch) override;
  /// Logs "val_loss" and "val_accuracy", and with 6 classes or more also "val_top5".
  void validation_step(const Batch& batch) override;
  /// Returns each sample's probabilities of the classes. Shape: returns [N, classes].
  at::Tensor predict_step(const Batch& batch) override;
  std::unique_ptr<Module> replica() const override {
    return std::make_unique<Classifier>(another_network(), classes_, options());
  }
  void on_validation_start() override { confusion_.clear(); }
  /// Returns "val_f1", the mean over classes.
  std::map<std::string, double> on_validation_end(Group& group, const std::map<std::string, double>& means) override;

  /// Shape: returns [N, classes].
  at::Tensor logits(const Batch& batch);
  /// Returns the counts of the last validation, of this rank's part.
  const ConfusionMatrix& confusion() const { return confusion_; }

 private:
  at::Tensor prepared(const Batch& batch);
  at::Tensor mixed_loss(const Batch& batch);

  std::int64_t classes_;
  at::Tensor scale_;  ///< The network's input is byte·scale + shift. Undefined without normalisation.
  at::Tensor shift_;
  ConfusionMatrix confusion_;
};

}  // namespace lockstep
