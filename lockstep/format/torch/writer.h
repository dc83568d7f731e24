// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/format/safetensors.h"

namespace lockstep {

/// An optimizer as a snapshot holds it.
struct SavedOptimizer {
  /// A group of parameters that share settings. The settings have PyTorch's names, such as {"lr": 0.1, "betas": [0.9,
  /// 0.999], …}.
  struct Group {
    nlohmann::json settings;
    std::vector<std::string> parameters;
  };

  std::string name;  ///< sgd adam adamw
  std::vector<Group> groups;
  std::vector<TensorEntry> state;  ///< Named "PARAMETER.PART", with PyTorch's names of parts, such as exp_avg and step.
};

/// Writes a file that torch.load reads with weights_only=True, its default. With an optimizer it holds {"model":
/// state_dict, "optimizer": state_dict}, else the state_dict alone. The optimizer's part has PyTorch's layout, so that
/// torch.optim's load_state_dict accepts it. Parameters are numbered in the order of the groups, and "step" is a
/// float32 tensor. Tensors are written without a copy. `path` is then complete, or still has its old content.
///
/// Blocks: until the data is on disk.
/// Throws: Error(kIo) if writing fails; Error(kData) for a dtype without a storage class in torch, and for optimizer
/// state that belongs to no parameter of a group.
void write_torch_file(const std::filesystem::path& path, std::span<const TensorEntry> model,
                      const std::optional<SavedOptimizer>& optimizer = {});

/// Writes a safetensors file of weights in the same way.
void write_safetensors_file(const std::filesystem::path& path, std::span<const TensorEntry> model);

}  // namespace lockstep
