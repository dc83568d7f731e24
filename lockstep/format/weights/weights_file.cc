// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/weights/weights_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/torch/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

constexpr std::string_view kWanted =
    "give a .safetensors file, a file of torch.save (.pt, .pth, .ckpt, .bin), a folder of Hugging Face, or a run";

[[noreturn]] void fail(const fs::path& path, const std::string& fact, std::string_view hint = kWanted) {
  throw Error(ErrorKind::kData, path.string() + ": " + fact, hint);
}

bool starts_with(Bytes bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// Recognizes other formats of weights by their first bytes, and refuses them by name.
void refuse_known(Bytes bytes, const fs::path& path) {
  if (starts_with(bytes, "\x89HDF")) {
    fail(path, "it is an HDF5 file, want safetensors or torch.save's", "save Keras weights as safetensors first");
  }
  if (starts_with(bytes, "\x80")) {
    fail(path, "it is a bare pickle, want a file of torch.save",
         "save the weights with torch.save(state_dict, FILE) or as safetensors");
  }
  if (starts_with(bytes, "version https://git-lfs")) {
    fail(path, "it is the pointer that git-lfs leaves in place of a file", "fetch the file itself: git lfs pull");
  }
  if (starts_with(bytes, "\x1f\x8b")) fail(path, "it is compressed by gzip, want it unpacked", "gunzip it first");
}

// True if the bytes begin as a safetensors file, damaged or not, with a header's length of 8 bytes and then JSON.
bool is_safetensors(Bytes bytes) { return bytes.size() > 8 && bytes[8] == std::byte{'{'}; }

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The files that a Hugging Face index names, each with the tensors that it must hold.
std::map<std::string, std::set<std::string>> shards_of(const fs::path& index) {
  std::map<std::string, std::set<std::string>> shards;
  try {
    const auto json = nlohmann::json::parse(text_of_file(index));
    for (const auto& [tensor, file] : json.at("weight_map").items()) {
      shards[file.get<std::string>()].insert(tensor);
    }
  } catch (const nlohmann::json::exception& error) {
    fail(index, std::string("it is no index of shards: ") + error.what(), "copy the folder again");
  }
  for (const auto& [file, tensors] : shards) {
    if (fs::path(file).filename() != file || file == "." || file == "..") {
      fail(index, "it names the file '" + pickle_text(file) + "', want one in the same folder");
    }
  }
  if (shards.empty()) fail(index, "it names no tensor");
  return shards;
}

/// Returns the file with the weights in a folder: a Hugging Face folder, a snapshot or a run.
fs::path file_in(const fs::path& folder) {
  constexpr std::array<const char*, 4> kNames = {"model.safetensors", "model.safetensors.index.json",
                                                 "pytorch_model.bin", "pytorch_model.bin.index.json"};
  for (const auto* name : kNames) {
    if (is_there(folder / name)) return folder / name;
  }
  std::vector<std::string> skipped;
  const auto skip = [&](const SnapshotEntry& entry, const std::string& reason) {
    skipped.push_back(entry.path.filename().string() + ": " + reason);
  };
  const auto snapshots = is_there(folder / "snapshots") ? folder / "snapshots" : folder;
  if (const auto newest = newest_whole_snapshot(snapshots, skip)) return newest->path / kNames.front();
  if (!skipped.empty()) fail(folder, "none of its snapshots is whole: " + joined(skipped, "; "));
  fail(folder,
       "the folder holds none of model.safetensors, model.safetensors.index.json, pytorch_model.bin and "
       "pytorch_model.bin.index.json, and no snapshot");
}

std::size_t matches(std::span<const std::string> names, const std::string& prefix,
                    const std::unordered_map<std::string_view, std::size_t>& places) {
  return static_cast<std::size_t>(
      std::ranges::count_if(names, [&](const auto& name) { return places.contains(prefix + name); }));
}

}  // namespace

const TensorEntry* WeightsFile::find(std::string_view name) const {
  const auto it = places_.find(name);
  return it == places_.end() ? nullptr : &tensors_[it->second];
}

std::string WeightsFile::fit(std::span<const std::string> model_names) {
  // If a tensor's name ends in one of the model's names, the rest may be the prefix. A few names are enough to find all
  // candidates.
  constexpr std::size_t kTried = 8;
  std::set<std::string> prefixes;
  for (const auto& name : model_names.first(std::min(kTried, model_names.size()))) {
    for (const auto& tensor : tensors_) {
      if (tensor.name.ends_with("." + name)) prefixes.insert(tensor.name.substr(0, tensor.name.size() - name.size()));
    }
  }
  std::size_t most = matches(model_names, "", places_);
  std::string best;
  for (const auto& prefix : prefixes) {
    const std::size_t found = matches(model_names, prefix, places_);
    if (found == most) best.clear();
    if (found <= most) continue;
    most = found;
    best = prefix;
  }
  if (best.empty()) return best;
  std::vector<TensorEntry*> longer;
  for (auto& tensor : tensors_) {
    const bool is_free = tensor.name.starts_with(best) && !places_.contains(tensor.name.substr(best.size()));
    if (is_free) longer.push_back(&tensor);
  }
  for (auto* tensor : longer) tensor->name.erase(0, best.size());
  place_all();
  return best;
}

void WeightsFile::place_all() {
  places_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) places_.emplace(tensors_[i].name, i);
}

void WeightsFile::add(const std::vector<TensorEntry>& tensors, const fs::path& path) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors_) names.insert(tensor.name);
  for (const auto& tensor : tensors) {
    if (names.contains(tensor.name)) fail(path, "'" + tensor.name + "' is in an earlier shard too, want it in one");
  }
  tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
}

void WeightsFile::add_file(const fs::path& path) {
  MappedFile mapping(path);
  const Bytes bytes = mapping.bytes();
  if (is_torch_file(bytes)) {
    mappings_.push_back(std::move(mapping));
    const auto& found = torch_.emplace_back(parse_torch_file(bytes, path.string()));
    left_out_.insert(left_out_.end(), found.left_out.begin(), found.left_out.end());
    return add(found.tensors, path);
  }
  refuse_known(bytes, path);
  if (!is_safetensors(bytes)) {
    fail(path, bytes.empty() ? "the file is empty, want weights" : "its first bytes are those of no file of weights");
  }
  mappings_.push_back(std::move(mapping));
  add(safetensors_.emplace_back(SafetensorsFile::parse(bytes, path.string())).tensors(), path);
}

void WeightsFile::add_shards(const fs::path& index) {
  for (const auto& [file, names] : shards_of(index)) {
    const std::size_t before = tensors_.size();
    add_file(index.parent_path() / file);
    std::set<std::string> missing = names;
    for (std::size_t i = before; i < tensors_.size(); ++i) missing.erase(tensors_[i].name);
    if (!missing.empty()) {
      fail(index.parent_path() / file, "it lacks '" + *missing.begin() + "', which the index says it holds",
           "copy the folder again");
    }
  }
}

WeightsFile open_weights(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? file_in(path) : path;
  WeightsFile weights;
  if (file.string().ends_with(".index.json")) {
    weights.add_shards(file);
  } else {
    weights.add_file(file);
  }
  if (weights.tensors_.empty()) fail(file, "it holds no tensor");
  weights.place_all();
  return weights;
}

}  // namespace lockstep
