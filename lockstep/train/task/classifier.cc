// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/task/classifier.h"

#include <torch/torch.h>

#include "lockstep/data/transform/mixing.h"

namespace lockstep {
namespace {

constexpr std::int64_t kTop = 5;

ImageSize size_of(const at::Tensor& images) {
  return {.width = static_cast<int>(images.size(3)), .height = static_cast<int>(images.size(2))};
}

}  // namespace

Classifier::Classifier(std::shared_ptr<Network> network, std::int64_t classes, TaskOptions task)
    : NetworkTask(std::move(network), std::move(task)), classes_(classes), confusion_(classes) {
  if (!options().normalisation) return;
  const auto channels = static_cast<std::int64_t>(options().normalisation->mean.size());
  const auto mean = at::tensor(options().normalisation->mean, at::kDouble).view({1, channels, 1, 1});
  const auto std = at::tensor(options().normalisation->std, at::kDouble).view({1, channels, 1, 1});
  scale_ = (1 / (255 * std)).to(options().type);
  shift_ = (-mean / std).to(options().type);
}

at::Tensor Classifier::prepared(const Batch& batch) {
  auto input = batch.input();
  const bool is_bytes = input.scalar_type() == at::kByte;
  const auto format =
      is_channels_last() && input.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Preserve;
  input = input.to(options().type, /*non_blocking=*/false, /*copy=*/false, format);
  if (!is_bytes) return input;
  if (!scale_.defined()) return input.div_(255);
  if (scale_.device() != input.device()) {
    scale_ = scale_.to(input.device());
    shift_ = shift_.to(input.device());
  }
  return input.mul_(scale_).add_(shift_);
}

at::Tensor Classifier::logits(const Batch& batch) { return scores(prepared(batch)); }

at::Tensor Classifier::training_step(const Batch& batch) {
  if (trains_itself()) return own_training_step(batch, prepared(batch));
  if (options().mixing.mixup_alpha > 0 || options().mixing.cutmix_alpha > 0) return mixed_loss(batch);
  if (options().loss) return options().loss(logits(batch), batch.target());
  return at::cross_entropy_loss(logits(batch), batch.target(), {}, at::Reduction::Mean, -100,
                                options().label_smoothing);
}

// Returns the loss with mixup or cutmix. Neighbours in the epoch's order are mixed with each other. A sample whose
// partner is on another rank, or missing at the end of the epoch, is not mixed.
at::Tensor Classifier::mixed_loss(const Batch& batch) {
  const auto input = prepared(batch);
  const auto& target = batch.target();
  auto mixed = input.clone();
  auto partners = at::arange(batch.samples(), at::kLong);
  auto own = at::ones({batch.samples()}, options().type);
  for (std::int64_t row = 0; row < batch.samples(); ++row) {
    const auto mix = drawn_mix(options().mixing, options().seed, batch.epoch, batch.first_index + row, size_of(input));
    const auto partner = mix.partner - batch.first_index;
    if (partner < 0 || partner >= batch.samples()) continue;
    partners[row] = partner;
    own[row] = mix.own;
    if (!mix.is_cut) {
      mixed[row].mul_(mix.own).add_(input[partner], 1 - mix.own);
      continue;
    }
    const auto cut = [&](const at::Tensor& image) {
      return image.slice(1, mix.box.top, mix.box.top + mix.box.height)
          .slice(2, mix.box.left, mix.box.left + mix.box.width);
    };
    cut(mixed[row]).copy_(cut(input[partner]));
  }
  partners = partners.to(target.device());
  own = own.to(target.device());
  const auto guesses = scores(mixed);
  const auto loss_for = [&](const at::Tensor& labels) {
    return at::cross_entropy_loss(guesses, labels, {}, at::Reduction::None, -100, options().label_smoothing);
  };
  return (own * loss_for(target) + (1 - own) * loss_for(target.index_select(0, partners))).mean();
}

at::Tensor Classifier::predict_step(const Batch& batch) { return logits(batch).to(at::kDouble).softmax(1); }

// Losses are added in double, so that the sum does not depend on the batches.
void Classifier::validation_step(const Batch& batch) {
  if (validates_itself()) return own_validation_step(batch, prepared(batch));
  const auto guesses = logits(batch).to(at::kDouble);
  const auto& target = batch.target();
  const auto predicted = guesses.argmax(1);
  log("val_loss", options().loss ? options().loss(guesses, target) : at::cross_entropy_loss(guesses, target));
  log("val_accuracy", predicted.eq(target).to(at::kDouble).mean());
  if (classes_ > kTop) {
    const auto best = std::get<1>(guesses.topk(kTop, 1));
    log("val_top5", best.eq(target.unsqueeze(1)).any(1).to(at::kDouble).mean());
  }
  confusion_.add(predicted, target);
  log_metrics(guesses, target);
}

std::map<std::string, double> Classifier::on_validation_end(Group& group, const std::map<std::string, double>&) {
  if (validates_itself()) return {};
  return {{"val_f1", f1_macro(confusion_.over_ranks(group))}};
}

}  // namespace lockstep
