// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/format/mapped_file.h"
#include "lockstep/format/safetensors.h"
#include "lockstep/format/torch/tensors.h"

namespace lockstep {

/// Weights by name, from any supported file. Tensors point into mapped files, so this object must outlive them.
class WeightsFile {
 public:
  /// Returns the tensors in the order of the file. A tensor may be unaligned, so copy it with memcpy.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// Returns the tensor of this name, or null if there is no such tensor.
  const TensorEntry* find(std::string_view name) const;
  /// Returns the names of entries in the file's dict of weights that are not tensors.
  const std::vector<std::string>& left_out() const { return left_out_; }

  /// Removes a prefix from the names if the model's own names then match better, and returns the prefix. It may be
  /// "model." of Lightning, "module." of DistributedDataParallel, "_orig_mod." of torch.compile, or any other. Names
  /// without it are unchanged. Returns an empty text if the names match as they are, or if several prefixes match
  /// equally well.
  std::string fit(std::span<const std::string> model_names);

 private:
  friend WeightsFile open_weights(const std::filesystem::path& path);

  void add_file(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& index);
  void add(const std::vector<TensorEntry>& tensors, const std::filesystem::path& path);
  void place_all();

  std::deque<MappedFile> mappings_;
  std::deque<SafetensorsFile> safetensors_;
  std::deque<TorchTensors> torch_;
  std::vector<TensorEntry> tensors_;
  std::vector<std::string> left_out_;
  std::unordered_map<std::string_view, std::size_t> places_;  ///< In tensors_, by the names there.
};

/// Opens weights, recognized by their content and not by their name. It takes a safetensors file; a file of torch.save,
/// where it reads a checkpoint's `state_dict`, `model_state_dict` or `model`; a Hugging Face folder with either, in
/// shards too; a snapshot of Lockstep; and a run, where it takes the newest intact snapshot.
///
/// Throws: Error(kIo) if the file cannot be opened; Error(kData) with the value found and wanted if it holds no
///         weights, is damaged, or refers to a class that Lockstep does not know. No code in the file is ever run.
WeightsFile open_weights(const std::filesystem::path& path);

}  // namespace lockstep
