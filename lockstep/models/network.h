// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// A network by name: from an input batch to logits.
struct Network : torch::nn::Module {
  /// Shape: input [N, input shape…], floating; returns [N, classes]. bert: I64 [N, length] to [N, length, vocabulary].
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// Why a device cannot record forward() once, in training, and make it again by itself (Module::why_not_recorded());
  /// empty where it can. Of a network of one's own nothing is known unless it says so.
  virtual std::string why_not_recorded() const;
};

struct ResNetOptions {
  /// How an image starts: "imagenet", 7 x 7 kernels and pooling, which quarter it; "cifar", 3 x 3 kernels, which keep
  /// images of some 32 pixels whole.
  std::string stem = "imagenet";
  bool zero_init_residual = false;  ///< Each block starts as an identity: for large batches.
};

/// vit_b_16's. The size of images is the data's.
struct VitOptions {
  std::int64_t patch_size = 16;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t mlp_dim = 3072;
  double dropout = 0;
  double attention_dropout = 0;
};

/// A small one: bert-base has a width of 768, 12 layers, 12 heads, 3072 between.
struct BertOptions {
  std::int64_t vocabulary = 0;  ///< 0: as many ids as the data have.
  std::int64_t width = 128;
  std::int64_t layers = 2;
  std::int64_t heads = 2;
  std::int64_t intermediate = 512;
  std::int64_t max_positions = 512;
  double dropout = 0.1;
  double attention_dropout = 0.1;
};

/// What a network is built from. What the data decide, the data say: input shape and number of classes.
struct NetworkOptions {
  std::string name = "mlp";
  std::vector<std::int64_t> input_shape{};  ///< Of one sample: [1, 28, 28].
  std::int64_t classes = 10;
  std::vector<std::int64_t> hidden = {128};  ///< mlp: width of each hidden layer.
  ResNetOptions resnet{};
  VitOptions vit{};
  BertOptions bert{};
};

/// mlp cnn resnet18 resnet34 resnet50 resnet101 resnet152 vit_b_16 bert
std::vector<std::string> network_names();

/// Builds one with the initialisation of the library that its parameters' names come from, drawn from the default
/// generator: seed that first.
///
/// Throws: Error(kRecipe) for an unknown name or a setting out of range; Error(kData) where the input's shape does not
/// fit, with both shapes.
std::shared_ptr<Network> make_network(const NetworkOptions& options);

/// Registers what `from` has of its own with `to`, piece by piece and under the same names: as a child, it would put a
/// name before each of them.
void adopt(torch::nn::Module& to, const torch::nn::Module& from);

/// Converts weights and floating buffers to `type`; buffers that count, such as BatchNorm's, stay whole numbers.
void convert_floating(torch::nn::Module& module, at::ScalarType type);

/// Numbers that are trained; tied weights count once.
std::int64_t parameter_count(const torch::nn::Module& module);

}  // namespace lockstep
