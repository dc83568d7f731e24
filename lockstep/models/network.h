// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// A network by name: from an input batch to logits.
struct Network : torch::nn::Module {
  /// Shape: input [N, input shape…], floating; returns [N, classes].
  virtual at::Tensor forward(const at::Tensor& input) = 0;
};

/// What a network is built from. What the data decide, the data say: input shape and number of classes.
struct NetworkOptions {
  std::string name = "mlp";
  std::vector<std::int64_t> input_shape;  ///< Of one sample: [1, 28, 28].
  std::int64_t classes = 10;
  std::vector<std::int64_t> hidden = {128};  ///< mlp: width of each hidden layer.
};

/// Builds one with PyTorch's default initialisation, drawn from the default generator: seed that first.
///
/// Throws: Error(kRecipe) for an unknown name; Error(kData) where the input's shape does not fit, with both shapes.
std::shared_ptr<Network> make_network(const NetworkOptions& options);

/// Converts weights and floating buffers to `type`; buffers that count, such as BatchNorm's, stay whole numbers.
void convert_floating(torch::nn::Module& module, at::ScalarType type);

/// Numbers that are trained; tied weights count once.
std::int64_t parameter_count(const torch::nn::Module& module);

/// Copies weights by name from a safetensors file into the module's parameters and buffers; floating types are
/// converted.
///
/// Throws: Error(kIo); Error(kData) naming the tensors that are missing, left over, or of another shape or type: the
/// module is
///         then as it was.
void load_weights(torch::nn::Module& module, const std::filesystem::path& file);

}  // namespace lockstep
