// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace lockstep {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Returns the trained parameters of a module, by name. Tied weights appear under several names, and each tensor counts
/// once.
std::vector<NamedTensor> trained_parameters(const torch::nn::Module& module);

/// Returns the gradients of those parameters that have one.
std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters);

std::vector<at::Tensor> tensors_of(const torch::OrderedDict<std::string, at::Tensor>& named);

/// Returns names, shapes and types of all parameters and buffers as text, a line for each. Ranks compare these texts.
std::string description(const torch::nn::Module& module);

}  // namespace lockstep
