// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/python/in_python.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

/// A Python torch.nn.Module, and the preparation for each call of it.
class PythonModule {
 public:
  /// Registers the module's parameters and buffers with `mirror`, under Python's names. They stay Python's own tensors.
  /// The GIL must be held.
  PythonModule(PythonObject module, torch::nn::Module& mirror);

  /// The GIL must be held, here and below.
  pybind11::handle object() const { return *module_; }

  /// Call it before each call of the module. Moves buffers that are not in snapshots to the input's device and type. In
  /// training, seeds Python's and NumPy's generators as LibTorch's are seeded.
  void prepare(const at::Tensor& input, bool is_training);

 private:
  void follow(const at::Tensor& input);
  void seed_other_generators();

  PythonObject module_;
  PythonObject seed_;
  std::optional<std::uint64_t> last_seed_;
  std::vector<at::Tensor> passing_;  ///< Buffers that are not in snapshots.
};

}  // namespace lockstep
