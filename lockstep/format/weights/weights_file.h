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

/// Weights by name out of whatever holds them. Tensors point into mapped files: the object must outlive them.
class WeightsFile {
 public:
  /// In the order of the file. A tensor may lie at any address: copy it out with memcpy.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// Nothing where there is no such tensor.
  const TensorEntry* find(std::string_view name) const;
  /// What there is in the file's dict of weights besides tensors.
  const std::vector<std::string>& left_out() const { return left_out_; }

  /// Takes a prefix off the names, and returns it, where the model's own names then fit better: "model." that Lightning
  /// puts before each, "module." of DistributedDataParallel, "_orig_mod." of torch.compile, or any other. Names without
  /// it stay. Empty where the names fit as they are, or several prefixes fit alike.
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

/// Opens weights, told by their content and not by their name: a safetensors file; a file of torch.save, of which a
/// checkpoint's `state_dict`, `model_state_dict` or `model` is taken; a folder of Hugging Face with either, in shards
/// too; a snapshot of Lockstep; a run, whose newest whole snapshot it is.
///
/// Throws: Error(kIo) where it cannot be opened; Error(kData) with the value found and wanted where it holds no
/// weights, or is damaged, or names what Lockstep does not know. Nothing in it is ever run.
WeightsFile open_weights(const std::filesystem::path& path);

}  // namespace lockstep
