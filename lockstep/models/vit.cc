// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/vit.h"

#include <torch/torch.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/device/dtype.h"
#include "lockstep/models/attention.h"
#include "lockstep/models/option_checks.h"

namespace lockstep {
namespace {

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-6));
}

// Fills a tensor as torch.nn.init.trunc_normal_ does, with mean 0, cut at -2 and 2.
void fill_truncated_normal(const at::Tensor& tensor, double std) {
  const torch::NoGradGuard no_grad;
  const double bound = std::erf(2 / std / std::sqrt(2.0));
  tensor.detach().uniform_(-bound, bound).erfinv_().mul_(std * std::sqrt(2.0)).clamp_(-2, 2);
}

// Attention whose parameters have the names of torch's MultiheadAttention. It does not return attention weights.
struct SelfAttention : torch::nn::Module {
  explicit SelfAttention(const VitOptions& options)
      : heads(options.heads),
        dropout(options.attention_dropout),
        in_proj_weight(register_parameter("in_proj_weight", at::empty({3 * options.width, options.width}))),
        in_proj_bias(register_parameter("in_proj_bias", at::zeros({3 * options.width}))),
        out_proj(register_module("out_proj", torch::nn::Linear(options.width, options.width))) {
    torch::nn::init::xavier_uniform_(in_proj_weight);
    torch::nn::init::zeros_(out_proj->bias);
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto parts = at::linear(input, in_proj_weight, in_proj_bias).chunk(3, -1);
    return out_proj->forward(attention(parts[0], parts[1], parts[2], heads, is_training() ? dropout : 0));
  }

  std::int64_t heads;
  double dropout;
  at::Tensor in_proj_weight;
  at::Tensor in_proj_bias;
  torch::nn::Linear out_proj;
};

// The layers have the numbers of torchvision's Sequential: linear, GELU, dropout, linear, dropout.
struct FeedForward : torch::nn::Module {
  explicit FeedForward(const VitOptions& options)
      : dropout(options.dropout),
        up(register_module("0", torch::nn::Linear(options.width, options.mlp_dim))),
        down(register_module("3", torch::nn::Linear(options.mlp_dim, options.width))) {
    for (const auto& layer : {up, down}) {
      torch::nn::init::xavier_uniform_(layer->weight);
      torch::nn::init::normal_(layer->bias, 0, 1e-6);
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto x = at::dropout(at::gelu(up->forward(input)), dropout, is_training());
    return at::dropout(down->forward(x), dropout, is_training());
  }

  double dropout;
  torch::nn::Linear up;
  torch::nn::Linear down;
};

struct EncoderLayer : torch::nn::Module {
  explicit EncoderLayer(const VitOptions& options)
      : dropout(options.dropout),
        ln_1(register_module("ln_1", layer_norm(options.width))),
        self_attention(register_module("self_attention", std::make_shared<SelfAttention>(options))),
        ln_2(register_module("ln_2", layer_norm(options.width))),
        mlp(register_module("mlp", std::make_shared<FeedForward>(options))) {}

  at::Tensor forward(const at::Tensor& input) {
    const auto x = at::dropout(self_attention->forward(ln_1->forward(input)), dropout, is_training()) + input;
    return x + mlp->forward(ln_2->forward(x));
  }

  double dropout;
  torch::nn::LayerNorm ln_1;
  std::shared_ptr<SelfAttention> self_attention;
  torch::nn::LayerNorm ln_2;
  std::shared_ptr<FeedForward> mlp;
};

// The module "encoder.layers" has only the layers, without a forward() of its own.
struct Layers : torch::nn::Module {
  explicit Layers(const VitOptions& options) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      all.push_back(register_module("encoder_layer_" + std::to_string(i), std::make_shared<EncoderLayer>(options)));
    }
  }

  std::vector<std::shared_ptr<EncoderLayer>> all;
};

struct Encoder : torch::nn::Module {
  Encoder(const VitOptions& options, std::int64_t length)
      : dropout(options.dropout),
        pos_embedding(register_parameter("pos_embedding", at::empty({1, length, options.width}).normal_(0, 0.02))),
        layers(register_module("layers", std::make_shared<Layers>(options))),
        ln(register_module("ln", layer_norm(options.width))) {}

  at::Tensor forward(const at::Tensor& input) {
    auto x = at::dropout(input + pos_embedding, dropout, is_training());
    for (const auto& layer : layers->all) x = layer->forward(x);
    return ln->forward(x);
  }

  double dropout;
  at::Tensor pos_embedding;
  std::shared_ptr<Layers> layers;
  torch::nn::LayerNorm ln;
};

struct Heads : torch::nn::Module {
  Heads(std::int64_t width, std::int64_t classes) : head(register_module("head", torch::nn::Linear(width, classes))) {
    torch::nn::init::zeros_(head->weight);
    torch::nn::init::zeros_(head->bias);
  }

  torch::nn::Linear head;
};

struct VisionTransformer : Network {
  explicit VisionTransformer(const NetworkOptions& options)
      : class_token(register_parameter("class_token", at::zeros({1, 1, options.vit.width}))) {
    const auto& vit = options.vit;
    const auto channels = options.input_shape[0], patches = options.input_shape[1] / vit.patch_size;
    conv_proj = register_module(
        "conv_proj",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, vit.width, vit.patch_size).stride(vit.patch_size)));
    encoder = register_module("encoder", std::make_shared<Encoder>(vit, patches * patches + 1));
    heads = register_module("heads", std::make_shared<Heads>(vit.width, options.classes));
    fill_truncated_normal(conv_proj->weight,
                          std::sqrt(1 / static_cast<double>(channels * vit.patch_size * vit.patch_size)));
    torch::nn::init::zeros_(conv_proj->bias);
  }

  at::Tensor forward(const at::Tensor& input) override {
    const auto patches = conv_proj->forward(input).flatten(2).transpose(1, 2);
    const auto tokens = class_token.expand({input.size(0), -1, -1});
    return heads->head->forward(encoder->forward(at::cat({tokens, patches}, 1)).select(1, 0));
  }

  at::Tensor class_token;
  torch::nn::Conv2d conv_proj = nullptr;
  std::shared_ptr<Encoder> encoder;
  std::shared_ptr<Heads> heads;
};

}  // namespace

std::shared_ptr<Network> make_vit(const NetworkOptions& options) {
  const auto& vit = options.vit;
  const auto& shape = options.input_shape;
  check_heads(vit.width, vit.heads);
  check_positive("patch_size", vit.patch_size);
  check_positive("layers", vit.layers);
  check_positive("mlp_dim", vit.mlp_dim);
  check_dropout("dropout", vit.dropout);
  check_dropout("attention_dropout", vit.attention_dropout);
  if (shape.size() != 3 || shape[1] != shape[2] || shape[1] % vit.patch_size != 0 || shape[1] == 0) {
    throw Error(ErrorKind::kData,
                "the samples are " + shape_text(shape) + ", the model " + options.name +
                    " wants [channels, size, size] with a size in whole patches of " + std::to_string(vit.patch_size),
                "resize the images with data.transforms, or change model.patch_size");
  }
  return std::make_shared<VisionTransformer>(options);
}

}  // namespace lockstep
