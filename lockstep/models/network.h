// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The built-in networks by name, and the base class of your own.
///
///     torch::manual_seed(42);
///     auto net = lockstep::make_network({.name = "resnet18", .input_shape = {3, 64, 64}, .classes = 10});
///     const auto logits = net->forward(at::zeros({1, 3, 64, 64}));
///     std::cout << lockstep::parameter_count(*net) << " parameters\n";

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// A network that maps an input batch to logits.
struct Network : torch::nn::Module {
  /// Shape: input [N, input shape…], floating; returns [N, classes]. bert: I64 [N, length] to [N, length, vocabulary].
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// Returns the reason why a device cannot record forward() in training once and replay it. Empty if it can. See
  /// Module::why_not_recorded(). Unless overridden, the reason is that Lockstep knows nothing about the network.
  virtual std::string why_not_recorded() const;
};

struct ResNetOptions {
  /// The first layers. "imagenet" has 7 x 7 kernels and pooling, which shrink an image to a quarter of its side.
  /// "cifar" has 3 x 3 kernels, which keep the size, for images of about 32 pixels.
  std::string stem = "imagenet";
  bool zero_init_residual = false;  ///< Start each block as an identity, which helps with large batches.
};

/// The options of vit_b_16. The image size comes from the data.
struct VitOptions {
  std::int64_t patch_size = 16;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t mlp_dim = 3072;
  double dropout = 0;
  double attention_dropout = 0;
};

/// The options of a small BERT. bert-base has width 768, 12 layers, 12 heads and intermediate 3072.
struct BertOptions {
  std::int64_t vocabulary = 0;  ///< Number of ids. 0 for that of the data.
  std::int64_t width = 128;
  std::int64_t layers = 2;
  std::int64_t heads = 2;
  std::int64_t intermediate = 512;
  std::int64_t max_positions = 512;
  double dropout = 0.1;
  double attention_dropout = 0.1;
};

/// The options of a network. Input shape and number of classes come from the data.
struct NetworkOptions {
  std::string name = "mlp";
  std::vector<std::int64_t> input_shape{};  ///< Shape of one sample, such as [1, 28, 28].
  std::int64_t classes = 10;
  bool takes_text = false;  ///< For script, the input is I64 ids [N, length] and the output [N, length, classes].
  std::vector<std::int64_t> hidden = {128};  ///< For mlp, the width of each hidden layer.
  ResNetOptions resnet{};
  VitOptions vit{};
  BertOptions bert{};
};

/// Returns the names mlp cnn resnet18 resnet34 resnet50 resnet101 resnet152 vit_b_16 bert.
std::vector<std::string> network_names();

/// Builds a network. Its parameters are named and initialised as in the library that the network comes from. They are
/// drawn from the default generator, so seed that first.
///
/// Throws: Error(kRecipe) for an unknown name or a setting out of range; Error(kData) with both shapes if the input's
/// shape does not fit.
std::shared_ptr<Network> make_network(const NetworkOptions& options);

/// Registers the parameters, buffers and children of `from` with `to` under the same names. If `from` were registered
/// as a child, each name would have the child's name as a prefix.
void adopt(torch::nn::Module& to, const torch::nn::Module& from);

/// Converts weights and floating buffers to `type`. Integer buffers, such as BatchNorm's counter, are unchanged.
void convert_floating(torch::nn::Module& module, at::ScalarType type);

/// Lays out weights of four dimensions with the channels last.
void lay_channels_last(torch::nn::Module& module);

/// Returns the number of trained parameters. Tied weights count once.
std::int64_t parameter_count(const torch::nn::Module& module);

}  // namespace lockstep
