// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

struct WeightsOptions {
  /// What stays as it is in the model and is passed over in the file, by name: `*` stands for any letters. For a new
  /// head: {"fc.*"}.
  std::vector<std::string> except{};
};

/// What load_weights() did.
struct LoadedWeights {
  std::string prefix;                ///< Taken off the file's names.
  std::vector<std::string> initial;  ///< Parameters and buffers that stayed as they were.
  std::vector<std::string> unused;   ///< Tensors of the file.
};

/// Copies weights by name into the module's parameters and buffers, from any file or folder that open_weights() knows;
/// floating types are converted. Names of older versions of torchvision and Hugging Face are understood, a prefix is
/// taken off, and of tied weights one is enough.
///
/// Throws: Error(kIo); Error(kData) naming the tensors that are missing, left over, or of another shape or type: the
/// module is then as it was; Error(kRecipe) for a pattern that fits no name.
LoadedWeights load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                           const WeightsOptions& options = {});

/// Keeps the parameters whose names fit a pattern from being trained. Buffers go on changing.
///
/// Throws: Error(kRecipe) for a pattern that fits no parameter, and where none would be left to train.
void freeze(torch::nn::Module& module, const std::vector<std::string>& patterns);

}  // namespace lockstep
