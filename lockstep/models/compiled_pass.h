// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/models/network.h"

namespace lockstep {

/// Checks that a file's machine code can be loaded here.
/// Throws: as CompiledPass does, but for errors about the network.
void require_loadable(const std::filesystem::path& file);

/// The compiled forward and backward pass of one network on batches of one shape, from a file that
/// python/lockstep_host/passes.py wrote. Backward hands over its gradients in stages.
class CompiledPass {
 public:
  /// Loads the file's machine code. `network` is the one that it was compiled from.
  /// Throws: Error(kData) if the file has no compiled passes, or those of another network; Error(kEnvironment) if it
  /// was
  ///         compiled for another LibTorch.
  CompiledPass(const std::filesystem::path& file, const Network& network);
  ~CompiledPass();
  CompiledPass(const CompiledPass&) = delete;
  CompiledPass& operator=(const CompiledPass&) = delete;

  /// Returns true if the pass was compiled for batches of this shape and type.
  bool takes(const at::Tensor& batch) const;
  /// Returns the type and shape of its batches, such as "F32 [64, 3, 32, 32]".
  std::string batch_text() const;
  /// Returns the number of stages in which backward hands over its gradients.
  std::size_t stages() const;

  /// Runs the compiled forward pass, updates the network's buffers, and returns the output. Its backward is the
  /// compiled one, and can run once. This object must outlive the output's graph. Throws: Error(kRecipe) if the network
  /// was compiled for another device, precision or layout.
  at::Tensor run(const at::Tensor& batch);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
