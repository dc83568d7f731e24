// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/batch_norm.h"

#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/device/dtype.h"

namespace lockstep {
namespace {

constexpr double kEps = 1e-5;
constexpr double kMomentum = 0.1;

struct SyncHolder : torch::CustomClassHolder {
  explicit SyncHolder(std::shared_ptr<StatisticsSync> held) : sync(std::move(held)) {}
  std::shared_ptr<StatisticsSync> sync;
};

// Reshapes a value for each channel so that it broadcasts over the other dimensions of `like`.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

struct Statistics {
  at::Tensor mean;   ///< In the type of the running statistics, as is the variance.
  at::Tensor var;    ///< Biased.
  at::Tensor count;  ///< Of numbers a channel, float64.
  std::shared_ptr<StatisticsSync> sync;
};

// Sums are exchanged in float64. In float32, a difference of squares would lose the variance of channels whose mean is
// far from zero.
Statistics statistics_of(const at::Tensor& input, const at::Tensor& running_mean,
                         const std::shared_ptr<StatisticsSync>& sync) {
  const auto channels = input.size(1);
  auto total = at::zeros({2 * channels + 1}, input.options().dtype(at::kDouble));
  if (sync->takes_part) {
    // These running values only determine the type in which the kernel computes. They are discarded.
    const auto [mean, var] =
        at::batch_norm_update_stats(input, at::zeros_like(running_mean), at::zeros_like(running_mean), kMomentum);
    const auto samples = static_cast<double>(input.numel() / channels);
    const auto wide = mean.to(at::kDouble);
    total.narrow(0, 0, channels).copy_(wide).mul_(samples);
    total.narrow(0, channels, channels).copy_(wide.square().add_(var)).mul_(samples);
    total.narrow(0, 2 * channels, 1).fill_(samples);
  }
  sync->sum(total);
  const auto count = total.narrow(0, 2 * channels, 1);
  const auto mean = total.narrow(0, 0, channels) / count;
  const auto var = (total.narrow(0, channels, channels) / count).sub_(mean.square()).clamp_min_(0);
  const auto type = running_mean.scalar_type();
  return {mean.to(type), var.to(type), count, sync};
}

// The kernels of evaluation take a mean and a variance, forward and backward, on every device. The batch's own
// statistics add a term to the gradient, which is added here.
class SyncedBatchNorm : public torch::autograd::Function<SyncedBatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias, const Statistics& statistics) {
    context->save_for_backward({input, weight, statistics.mean, statistics.var, statistics.count});
    context->saved_data["sync"] = at::IValue::make_capsule(c10::make_intrusive<SyncHolder>(statistics.sync));
    context->saved_data["takes_part"] = statistics.sync->takes_part;
    return std::get<0>(at::native_batch_norm(input, weight, bias, statistics.mean, statistics.var, /*training=*/false,
                                             kMomentum, kEps));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &mean = saved[2], &var = saved[3], &count = saved[4];
    auto [of_input, of_weight, of_bias] =
        at::native_batch_norm_backward(gradients[0].contiguous(input.suggest_memory_format()), input, weight, mean, var,
                                       {}, {}, /*train=*/false, kEps, {true, true, true});
    const bool takes_part = context->saved_data["takes_part"].toBool();
    auto total = at::cat({of_bias, of_weight}).to(at::kDouble);
    if (!takes_part) total.zero_();
    const auto capsule = context->saved_data["sync"].toCapsule();
    static_cast<const SyncHolder&>(*capsule).sync->sum(total);
    if (takes_part) {
      const auto channels = mean.numel();
      const auto means = (total / count).to(mean.scalar_type());
      const auto scale = weight * (var + kEps).rsqrt();
      const auto shift = by_channel(scale * means.narrow(0, 0, channels), input);
      const auto slope = by_channel(scale * (var + kEps).rsqrt() * means.narrow(0, channels, channels), input);
      of_input =
          (input - by_channel(mean, input)).mul_(slope).add_(shift).neg_().add_(of_input).to(input.scalar_type());
    }
    return {of_input, of_weight, of_bias, {}};
  }
};

}  // namespace

BatchNorm::BatchNorm(std::int64_t channels)
    : weight_(register_parameter("weight", at::ones({channels}))),
      bias_(register_parameter("bias", at::zeros({channels}))),
      running_mean_(register_buffer("running_mean", at::zeros({channels}))),
      running_var_(register_buffer("running_var", at::ones({channels}))),
      num_batches_tracked_(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))) {}

at::Tensor BatchNorm::forward(const at::Tensor& input) {
  if (is_training()) {
    num_batches_tracked_.add_(1);
    if (sync_) return synced(input);
    if (input.numel() <= input.size(1)) {
      throw Error(ErrorKind::kRecipe,
                  "a batch in training is " + shape_text(input.sizes()) +
                      " at a BatchNorm layer, want more than one number a channel",
                  "choose a batch that leaves no single sample at an epoch's end, or larger images");
    }
  }
  const double momentum = is_training() ? next_momentum() : kMomentum;
  return at::batch_norm(input, weight_, bias_, running_mean_, running_var_, is_training(), momentum, kEps,
                        at::globalContext().userEnabledCuDNN());
}

void BatchNorm::begin_mean() {
  const torch::NoGradGuard no_grad;
  running_mean_.zero_();
  running_var_.fill_(1);
  num_batches_tracked_.zero_();
  batches_in_mean_ = 0;
}

double BatchNorm::next_momentum() {
  return batches_in_mean_ ? 1.0 / static_cast<double>(++*batches_in_mean_) : kMomentum;
}

at::Tensor BatchNorm::synced(const at::Tensor& input) {
  Statistics statistics;
  {
    const torch::NoGradGuard no_grad;
    statistics = statistics_of(input, running_mean_, sync_);
    // A single number has no variance. A check here would make every layer wait for the device, so there is none.
    const auto unbiased = statistics.count / (statistics.count - 1).clamp_min_(1);
    const double momentum = next_momentum();
    running_mean_.lerp_(statistics.mean, momentum);
    running_var_.lerp_(statistics.var * unbiased.to(statistics.var.scalar_type()), momentum);
  }
  return SyncedBatchNorm::apply(input, weight_, bias_, statistics);
}

std::int64_t set_statistics_sync(torch::nn::Module& module, const std::shared_ptr<StatisticsSync>& sync) {
  std::int64_t count = 0;
  const auto set = [&](torch::nn::Module& each) {
    if (auto* layer = dynamic_cast<BatchNorm*>(&each)) {
      layer->set_sync(sync);
      ++count;
    }
  };
  set(module);
  // The children are visited by hand. modules() would need a shared_ptr to the module, which may be owned in another
  // way.
  for (const auto& each : module.modules(/*include_self=*/false)) set(*each);
  return count;
}

}  // namespace lockstep
