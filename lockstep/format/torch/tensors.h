// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/format/safetensors.h"
#include "lockstep/format/torch/pickle_value.h"

namespace lockstep {

/// A storage that a pickle of torch.save refers to. One or more tensors view its elements.
struct TorchStorage {
  std::string dtype;  ///< Empty for bytes whose dtype the tensor determines.
  std::string key;
  std::uint64_t bytes = 0;
};

/// The storage that a kPersistent value names.
///
/// Throws: Error(kData) with `where`, the value found and wanted.
TorchStorage torch_storage(const PickleValue& value, const std::string& where);

/// The weights in a pickle of torch.save.
struct TorchTensors {
  std::vector<TensorEntry> tensors;           ///< In the order of the file, with its names. Nested names have dots.
  std::deque<std::vector<std::byte>> copies;  ///< Of tensors that do not lie row by row in their storage.
  std::string taken;                          ///< The key of the dict that was read, such as "state_dict". Empty if it
                                              ///< was the whole.
  std::vector<std::string> left_out;          ///< Names in that dict that hold no tensors.
};

/// Of a checkpoint its weights (what `state_dict`, `model_state_dict` or `model` hold), else all tensors of the dict
/// that it is. `bytes_of` gives a storage's bytes, as many as it says.
///
/// Throws: Error(kData) with the tensor, the value found and wanted: there is no dict, a tensor reaches beyond its
/// storage or is of a special kind (quantised, sparse), copies would need more than `most_copied` bytes.
TorchTensors torch_tensors(const PickleValue& root, const std::string& name,
                           const std::function<std::span<const std::byte>(const TorchStorage&)>& bytes_of,
                           std::uint64_t most_copied);

}  // namespace lockstep
