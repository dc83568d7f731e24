// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/bert.h"

#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/device/dtype.h"
#include "lockstep/models/attention.h"
#include "lockstep/models/option_checks.h"

namespace lockstep {
namespace {

constexpr double kInitialStd = 0.02;

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-12));
}

struct Embeddings : torch::nn::Module {
  Embeddings(const BertOptions& options, std::int64_t vocabulary)
      : dropout(options.dropout),
        words(register_module("word_embeddings", torch::nn::Embedding(vocabulary, options.width))),
        positions(register_module("position_embeddings", torch::nn::Embedding(options.max_positions, options.width))),
        types(register_module("token_type_embeddings", torch::nn::Embedding(2, options.width))),
        norm(register_module("LayerNorm", layer_norm(options.width))) {}

  at::Tensor forward(const at::Tensor& ids) {
    const auto x = words->forward(ids) + types->weight[0] + positions->weight.narrow(0, 0, ids.size(1));
    return at::dropout(norm->forward(x), dropout, is_training());
  }

  double dropout;
  torch::nn::Embedding words;
  torch::nn::Embedding positions;
  torch::nn::Embedding types;
  torch::nn::LayerNorm norm;
};

struct SelfAttention : torch::nn::Module {
  explicit SelfAttention(const BertOptions& options)
      : heads(options.heads),
        dropout(options.attention_dropout),
        query(register_module("query", torch::nn::Linear(options.width, options.width))),
        key(register_module("key", torch::nn::Linear(options.width, options.width))),
        value(register_module("value", torch::nn::Linear(options.width, options.width))) {}

  at::Tensor forward(const at::Tensor& x) {
    return attention(query->forward(x), key->forward(x), value->forward(x), heads, is_training() ? dropout : 0);
  }

  std::int64_t heads;
  double dropout;
  torch::nn::Linear query;
  torch::nn::Linear key;
  torch::nn::Linear value;
};

// The end of both halves of a layer. It projects, adds the half's input, and normalises.
struct Output : torch::nn::Module {
  Output(std::int64_t from, const BertOptions& options)
      : dropout(options.dropout),
        dense(register_module("dense", torch::nn::Linear(from, options.width))),
        norm(register_module("LayerNorm", layer_norm(options.width))) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& before) {
    return norm->forward(at::dropout(dense->forward(x), dropout, is_training()) + before);
  }

  double dropout;
  torch::nn::Linear dense;
  torch::nn::LayerNorm norm;
};

struct Attention : torch::nn::Module {
  explicit Attention(const BertOptions& options)
      : self(register_module("self", std::make_shared<SelfAttention>(options))),
        output(register_module("output", std::make_shared<Output>(options.width, options))) {}

  at::Tensor forward(const at::Tensor& x) { return output->forward(self->forward(x), x); }

  std::shared_ptr<SelfAttention> self;
  std::shared_ptr<Output> output;
};

struct Intermediate : torch::nn::Module {
  explicit Intermediate(const BertOptions& options)
      : dense(register_module("dense", torch::nn::Linear(options.width, options.intermediate))) {}

  torch::nn::Linear dense;
};

struct Layer : torch::nn::Module {
  explicit Layer(const BertOptions& options)
      : attention(register_module("attention", std::make_shared<Attention>(options))),
        intermediate(register_module("intermediate", std::make_shared<Intermediate>(options))),
        output(register_module("output", std::make_shared<Output>(options.intermediate, options))) {}

  at::Tensor forward(const at::Tensor& input) {
    const auto x = attention->forward(input);
    return output->forward(at::gelu(intermediate->dense->forward(x)), x);
  }

  std::shared_ptr<Attention> attention;
  std::shared_ptr<Intermediate> intermediate;
  std::shared_ptr<Output> output;
};

struct Encoder : torch::nn::Module {
  explicit Encoder(const BertOptions& options)
      : layer(register_module("layer", std::make_shared<torch::nn::Module>())) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      layers.push_back(layer->register_module(std::to_string(i), std::make_shared<Layer>(options)));
    }
  }

  std::shared_ptr<torch::nn::Module> layer;
  std::vector<std::shared_ptr<Layer>> layers;
};

struct Body : torch::nn::Module {
  Body(const BertOptions& options, std::int64_t vocabulary)
      : embeddings(register_module("embeddings", std::make_shared<Embeddings>(options, vocabulary))),
        encoder(register_module("encoder", std::make_shared<Encoder>(options))) {}

  at::Tensor forward(const at::Tensor& ids) {
    auto x = embeddings->forward(ids);
    for (const auto& layer : encoder->layers) x = layer->forward(x);
    return x;
  }

  std::shared_ptr<Embeddings> embeddings;
  std::shared_ptr<Encoder> encoder;
};

struct Transform : torch::nn::Module {
  explicit Transform(const BertOptions& options)
      : dense(register_module("dense", torch::nn::Linear(options.width, options.width))),
        norm(register_module("LayerNorm", layer_norm(options.width))) {}

  at::Tensor forward(const at::Tensor& x) { return norm->forward(at::gelu(dense->forward(x))); }

  torch::nn::Linear dense;
  torch::nn::LayerNorm norm;
};

// Both parameters of this module also belong to another module. They are registered under the names by which Hugging
// Face saves them.
struct Decoder : torch::nn::Module {
  Decoder(const at::Tensor& tied_weight, const at::Tensor& tied_bias)
      : weight(register_parameter("weight", tied_weight)), bias(register_parameter("bias", tied_bias)) {}

  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight, bias); }

  at::Tensor weight;
  at::Tensor bias;
};

struct Predictions : torch::nn::Module {
  Predictions(const BertOptions& options, const at::Tensor& words)
      : bias(register_parameter("bias", at::zeros({words.size(0)}))),
        transform(register_module("transform", std::make_shared<Transform>(options))),
        decoder(register_module("decoder", std::make_shared<Decoder>(words, bias))) {}

  at::Tensor forward(const at::Tensor& x) { return decoder->forward(transform->forward(x)); }

  at::Tensor bias;
  std::shared_ptr<Transform> transform;
  std::shared_ptr<Decoder> decoder;
};

struct Bert : Network {
  Bert(const BertOptions& options, std::int64_t vocabulary)
      : max_positions(options.max_positions),
        body(register_module("bert", std::make_shared<Body>(options, vocabulary))),
        cls(register_module("cls", std::make_shared<torch::nn::Module>())) {
    predictions =
        cls->register_module("predictions", std::make_shared<Predictions>(options, body->embeddings->words->weight));
    for (const auto& each : modules(/*include_self=*/false)) {
      if (const auto* linear = each->as<torch::nn::Linear>()) {
        torch::nn::init::normal_(linear->weight, 0, kInitialStd);
        torch::nn::init::zeros_(linear->bias);
      } else if (const auto* embedding = each->as<torch::nn::Embedding>()) {
        torch::nn::init::normal_(embedding->weight, 0, kInitialStd);
      }
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    if (input.dim() != 2 || input.size(1) > max_positions) {
      throw Error(ErrorKind::kData,
                  "a batch of ids is " + shape_text(input.sizes()) +
                      ", the model bert wants [samples, <= " + std::to_string(max_positions) + "]",
                  "shorten data.window, or raise model.max_positions");
    }
    return predictions->forward(body->forward(input));
  }

  std::int64_t max_positions;
  std::shared_ptr<Body> body;
  std::shared_ptr<torch::nn::Module> cls;
  std::shared_ptr<Predictions> predictions;
};

}  // namespace

std::shared_ptr<Network> make_bert(const NetworkOptions& options) {
  const auto& bert = options.bert;
  const auto& shape = options.input_shape;
  check_heads(bert.width, bert.heads);
  check_positive("layers", bert.layers);
  check_positive("intermediate", bert.intermediate);
  check_positive("max_positions", bert.max_positions);
  check_dropout("dropout", bert.dropout);
  check_dropout("attention_dropout", bert.attention_dropout);
  const auto vocabulary = bert.vocabulary == 0 ? options.classes : bert.vocabulary;
  if (vocabulary < options.classes) {
    throw Error(ErrorKind::kRecipe,
                "model.vocabulary is " + std::to_string(vocabulary) + ", the data have " +
                    std::to_string(options.classes) + " ids, want at least as many",
                "leave model.vocabulary out to take the data's");
  }
  if (shape.size() != 1 || shape[0] > bert.max_positions) {
    throw Error(ErrorKind::kData,
                "the samples are " + shape_text(shape) +
                    ", the model bert wants ids in [<= " + std::to_string(bert.max_positions) + "]",
                "train it on data.kind = \"text\" with a data.window that fits, or raise model.max_positions");
  }
  return std::make_shared<Bert>(bert, vocabulary);
}

}  // namespace lockstep
