// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/task/masked_language_model.h"

#include <torch/torch.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/data/source/text_source.h"

namespace lockstep {
namespace {

// Returns the mean over samples of each sample's mean over its masked positions. Shape: values [N, L].
at::Tensor mean_of_samples(const at::Tensor& values, const at::Tensor& is_masked) {
  const auto weights = is_masked.to(values.scalar_type());
  return ((values * weights).sum(1) / weights.sum(1).clamp_min(1)).mean();
}

at::Tensor loss_of(const at::Tensor& guesses, const at::Tensor& target) {
  const auto each = at::cross_entropy_loss(guesses.transpose(1, 2), target, {}, at::Reduction::None, kNotMasked);
  return mean_of_samples(each, target.ne(kNotMasked));
}

}  // namespace

at::Tensor MaskedLanguageModel::training_step(const Batch& batch) {
  if (trains_itself()) return own_training_step(batch, batch.input());
  return loss_of(scores(batch.input()), batch.target());
}

void MaskedLanguageModel::validation_step(const Batch& batch) {
  if (validates_itself()) return own_validation_step(batch, batch.input());
  const auto guesses = scores(batch.input());
  const auto is_right = guesses.argmax(2).eq(batch.target()).to(at::kDouble);
  log("val_loss", loss_of(guesses, batch.target()));
  log("val_accuracy", mean_of_samples(is_right, batch.target().ne(kNotMasked)));
  log_metrics(guesses, batch.target());
}

at::Tensor MaskedLanguageModel::predict_step(const Batch&) {
  throw Error(ErrorKind::kUsage, "predict is given a masked language model, want one that predicts a class or a number",
              "`lockstep eval` gives the loss and the accuracy of masked positions");
}

std::map<std::string, double> MaskedLanguageModel::on_validation_end(Group&,
                                                                     const std::map<std::string, double>& means) {
  const auto it = means.find("val_loss");
  if (it == means.end()) return {};
  return {{"val_perplexity", std::exp(it->second)}};
}

}  // namespace lockstep
