// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

struct WeightsOptions {
  /// Name patterns of tensors that keep their values in the model and are skipped in the file. A `*` matches any
  /// characters. For a new head, {"fc.*"}.
  std::vector<std::string> except{};
};

/// The result of load_weights().
struct LoadedWeights {
  std::string prefix;                ///< Taken off the file's names.
  std::vector<std::string> initial;  ///< Parameters and buffers that stayed as they were.
  std::vector<std::string> unused;   ///< Tensors of the file.
};

/// Copies weights by name into the module's parameters and buffers, from any file or folder that open_weights() knows.
/// Floating types are converted. Names of older versions of torchvision and Hugging Face are understood, a prefix of
/// all names is removed, and for a tied weight one of its names is enough.
///
/// Throws: Error(kIo) if the file cannot be read; Error(kData) naming the tensors that are missing, left over, or of
///         another shape or type. The module is then unchanged; Error(kRecipe) for a pattern that matches no name.
LoadedWeights load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                           const WeightsOptions& options = {});

/// Excludes parameters whose names match a pattern from training. Buffers still change.
///
/// Throws: Error(kRecipe) for a pattern that matches no parameter, and if no parameter would be left to train.
void freeze(torch::nn::Module& module, const std::vector<std::string>& patterns);

}  // namespace lockstep
