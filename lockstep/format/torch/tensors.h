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

/// Returns the storage to which a kPersistent value refers.
///
/// Throws: Error(kData) with `where`, the value found and wanted, if the value is not a storage.
TorchStorage torch_storage(const PickleValue& value, const std::string& where);

/// The weights in a pickle of torch.save.
struct TorchTensors {
  std::vector<TensorEntry> tensors;           ///< In the order of the file, with its names. Nested names have dots.
  std::deque<std::vector<std::byte>> copies;  ///< Of tensors that do not lie row by row in their storage.
  std::string taken;                          ///< The key of the dict that was read, such as "state_dict". Empty if it
                                              ///< was the whole.
  std::vector<std::string> left_out;          ///< Names in that dict that hold no tensors.
};

/// Reads the weights in a pickle. In a checkpoint they are in `state_dict`, `model_state_dict` or `model`. Otherwise
/// they are all tensors of the dict. `bytes_of` returns a storage's bytes, as many as the storage says.
///
/// Throws: Error(kData) with the tensor, the value found and wanted, if there is no dict, if a tensor reaches beyond
///         its storage or is quantised or sparse, or if copies would need more than `most_copied` bytes.
TorchTensors torch_tensors(const PickleValue& root, const std::string& name,
                           const std::function<std::span<const std::byte>(const TorchStorage&)>& bytes_of,
                           std::uint64_t most_copied);

}  // namespace lockstep
