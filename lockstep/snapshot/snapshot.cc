// SPDX-License-Identifier: Apache-2.0
#include "lockstep/snapshot/snapshot.h"

#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/device/dtype.h"
#include "lockstep/format/json_number.h"
#include "lockstep/format/safetensors.h"
#include "lockstep/format/snapshot/held_snapshot.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_names.h"
#include "lockstep/snapshot/optimizer_settings.h"
#include "lockstep/snapshot/optimizer_state.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr int kSchema = 1;

at::Tensor private_copy(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

std::vector<TensorEntry> entries_of(const std::vector<SavedTensor>& tensors) {
  std::vector<TensorEntry> entries;
  for (const auto& each : tensors) {
    entries.push_back(
        {each.name, dtype_name(each.tensor.scalar_type()), each.tensor.sizes().vec(), bytes_of(each.tensor)});
  }
  return entries;
}

Json numbers_json(const std::map<std::string, double>& numbers) {
  Json object = Json::object();
  for (const auto& [name, value] : numbers) object[name] = to_json_number(value);
  return object;
}

std::map<std::string, double> numbers_from(const Json& object) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : object.items()) numbers[name] = from_json_number(value);
  return numbers;
}

Json json_of(const MetricSum& sum) { return {to_json_number(sum.total), sum.samples}; }

MetricSum sum_from(const Json& pair) { return {from_json_number(pair.at(0)), pair.at(1)}; }

// Returns for each name of a sum a list of pairs, one pair for each rank.
Json json_of(const std::vector<RankSums>& ranks) {
  Json loss = Json::array();
  Json since_logged = Json::array();
  Json logged = Json::object();
  for (const auto& rank : ranks) {
    loss.push_back(json_of(rank.loss));
    since_logged.push_back(json_of(rank.since_logged));
    for (const auto& [name, sum] : rank.logged) logged[name].push_back(json_of(sum));
  }
  return {{"loss", loss}, {"since_logged", since_logged}, {"logged", logged}};
}

std::vector<RankSums> rank_sums_from(const Json& json) {
  std::vector<RankSums> ranks(json.at("loss").size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].loss = sum_from(json.at("loss").at(i));
    ranks[i].since_logged = sum_from(json.at("since_logged").at(i));
    for (const auto& [name, sums] : json.at("logged").items()) ranks[i].logged[name] = sum_from(sums.at(i));
  }
  return ranks;
}

Json json_of(const TrainingState& state) {
  Json logged = Json::object();
  for (const auto& [name, sum] : state.logged) logged[name] = json_of(sum);
  return {{"schema", kSchema},
          {"step", state.step},
          {"epoch", state.epoch},
          {"place", state.place},
          {"samples", state.samples},
          {"sample_digest", {hex64(state.digest.sums[0]), hex64(state.digest.sums[1])}},
          {"loss_sum", to_json_number(state.loss_sum)},
          {"loss_samples", state.loss_samples},
          {"metrics", numbers_json(state.metrics)},
          {"bucket_layout", state.bucket_layout},
          {"world", state.world},
          {"seed", state.seed},
          {"data_size", state.data_size},
          {"logged", logged},
          {"rank_sums", json_of(state.rank_sums)},
          {"numbers", numbers_json(state.numbers)}};
}

TrainingState state_from(const std::string& text, const std::filesystem::path& file) {
  try {
    const auto json = Json::parse(text);
    if (json.at("schema") != kSchema)
      throw std::runtime_error("its schema is " + json.at("schema").dump() + ", want 1");
    TrainingState state;
    state.step = json.at("step");
    state.epoch = json.at("epoch");
    state.place = json.at("place");
    state.samples = json.at("samples");
    for (std::size_t i = 0; i < 2; ++i) {
      state.digest.sums[i] = std::stoull(json.at("sample_digest").at(i).get<std::string>(), nullptr, 16);
    }
    state.loss_sum = from_json_number(json.at("loss_sum"));
    state.loss_samples = json.at("loss_samples");
    for (const auto& [name, sum] : json.at("logged").items()) state.logged[name] = sum_from(sum);
    if (const auto it = json.find("rank_sums"); it != json.end()) state.rank_sums = rank_sums_from(*it);
    state.numbers = numbers_from(json.at("numbers"));
    state.metrics = numbers_from(json.at("metrics"));
    state.bucket_layout = json.at("bucket_layout").get<decltype(state.bucket_layout)>();
    state.world = json.at("world");
    state.seed = json.at("seed");
    state.data_size = json.at("data_size");
    return state;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kData, file.string() + " is not a snapshot's state: " + error.what(),
                "resume from an earlier snapshot, or start from scratch with --resume none");
  }
}

std::map<std::string, at::Tensor> tensors_in(const SafetensorsFile& file) {
  std::map<std::string, at::Tensor> out;
  for (const auto& entry : file.tensors()) out.emplace(entry.name, tensor_from(entry.dtype, entry.shape, entry.bytes));
  return out;
}

[[noreturn]] void fail_fit(const std::filesystem::path& snapshot, const std::string& fact) {
  throw Error(ErrorKind::kData, snapshot.string() + " does not fit the model: " + fact,
              "resume with the recipe that wrote it, or start from scratch with --resume none");
}

void restore_module(const std::filesystem::path& snapshot, torch::nn::Module& module) {
  const auto file = SafetensorsFile::open(snapshot / kModelFile);
  auto saved = tensors_in(file);
  const torch::NoGradGuard no_grad;
  const auto restore = [&](const auto& named) {
    for (const auto& item : named) {
      const auto node = saved.extract(item.key());
      if (node.empty()) fail_fit(snapshot, "it lacks '" + item.key() + "'");
      const auto& tensor = node.mapped();
      if (tensor.sizes() != item.value().sizes() || tensor.scalar_type() != item.value().scalar_type()) {
        fail_fit(snapshot, "'" + item.key() + "' is " + dtype_name(tensor.scalar_type()) + " " +
                               shape_text(tensor.sizes()) + ", want " + dtype_name(item.value().scalar_type()) + " " +
                               shape_text(item.value().sizes()));
      }
      item.value().detach().copy_(tensor);
    }
  };
  restore(module.named_parameters());
  restore(module.named_buffers());
  if (!saved.empty()) fail_fit(snapshot, "'" + saved.begin()->first + "' is not in the model");
}

}  // namespace

void SampleDigest::add(std::int64_t epoch, std::int64_t id) {
  const std::uint64_t hash = mixed(static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(id));
  sums[0] += hash;
  sums[1] += mixed(hash, 1);
}

std::string SampleDigest::hex() const { return hex64(sums[0]) + hex64(sums[1]); }

std::string state_text(const TrainingState& state) { return json_of(state).dump(1) + "\n"; }

SnapshotContent shared_content_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                                  TrainingState state, std::vector<SavedTensor> extensions) {
  SnapshotContent content;
  for (const auto& item : module.named_parameters()) content.model.push_back({item.key(), item.value().detach(), true});
  for (const auto& item : module.named_buffers()) content.model.push_back({item.key(), item.value()});
  content.optimizer = optimizer_tensors(optimizer, parameter_names(module));
  for (auto& each : content.optimizer) each.is_shared = true;
  content.optimizer_settings = optimizer_settings(optimizer, parameter_names(module));
  content.extensions = std::move(extensions);
  content.state = std::move(state);
  for (auto* part : {&content.model, &content.optimizer, &content.extensions}) {
    for (auto& each : *part) {
      const auto& tensor = each.tensor;
      each.is_shared =
          each.is_shared && (tensor.is_cpu() ? tensor.is_contiguous() : tensor.is_non_overlapping_and_dense());
      if (!each.is_shared) each.tensor = private_copy(each.tensor);
    }
  }
  return content;
}

SnapshotContent content_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer, TrainingState state,
                           std::vector<SavedTensor> extensions) {
  auto content = shared_content_of(module, optimizer, std::move(state), std::move(extensions));
  for (auto* part : {&content.model, &content.optimizer, &content.extensions}) {
    for (auto& each : *part) {
      if (std::exchange(each.is_shared, false)) each.tensor = private_copy(each.tensor);
    }
  }
  return content;
}

SnapshotParts snapshot_parts(const SnapshotContent& content) {
  SnapshotParts parts{.step = content.state.step, .tensors = {}, .texts = {}};
  parts.tensors.emplace_back(kModelFile, entries_of(content.model));
  parts.tensors.emplace_back(kOptimizerFile, entries_of(content.optimizer));
  if (!content.extensions.empty()) parts.tensors.emplace_back(kExtensionsFile, entries_of(content.extensions));
  Json state = json_of(content.state);
  state["optimizer"] = Json::parse(content.optimizer_settings);
  if (!content.data.empty()) state["data"] = Json::parse(content.data);
  parts.texts.emplace_back(kStateFile, state.dump(1) + "\n");
  return parts;
}

WrittenSnapshot write_snapshot(const std::filesystem::path& snapshots, const SnapshotContent& content,
                               const WriteOptions& options) {
  auto [path, bytes] = write_parts(snapshots, snapshot_parts(content));
  if (options.is_best) mark_best(path);
  try {
    prune_snapshots(snapshots, {.newest = options.keep, .every = options.keep_every}, path);
  } catch (const Error& error) {
    // The new snapshot is complete, so the run can continue. The next save tries again to remove the old ones.
    Log(2, "lockstep: ").warning("old snapshots stay: " + std::string(error.fact()));
  }
  return {std::move(path), bytes};
}

TrainingState restore_snapshot(const std::filesystem::path& snapshot, torch::nn::Module& module,
                               torch::optim::Optimizer& optimizer) {
  auto state = parsed_state(text_of_file(snapshot / kStateFile), snapshot / kStateFile);
  restore_module(snapshot, module);
  const auto file = SafetensorsFile::open(snapshot / kOptimizerFile);
  restore_optimizer(optimizer, parameter_names(module), tensors_in(file));
  return state;
}

TrainingState parsed_state(const std::string& text, const std::filesystem::path& file) {
  return state_from(text, file);
}

bool restore_weights(const std::filesystem::path& snapshot, torch::nn::Module& module) {
  restore_module(snapshot, module);
  const auto averages = extension_tensors(snapshot);
  const auto count = averages.find(kAveragePrefix + "count");
  if (count == averages.end() || count->second.item<std::int64_t>() == 0) return false;
  if (averages.contains(kAveragePrefix + "lacks_statistics")) return false;
  const torch::NoGradGuard no_grad;
  const auto take = [&](const auto& named) {
    for (const auto& item : named) {
      const auto it = averages.find(kAveragePrefix + item.key());
      if (it != averages.end()) item.value().detach().copy_(it->second);
    }
  };
  take(module.named_parameters());
  take(module.named_buffers());
  return true;
}

std::optional<std::string> state_fault(const std::filesystem::path& snapshot) {
  try {
    parsed_state(text_of_file(snapshot / kStateFile), snapshot / kStateFile);
    return std::nullopt;
  } catch (const Error& error) {
    return std::string(error.fact());
  }
}

std::string saved_data(const std::filesystem::path& snapshot) {
  const auto file = snapshot / kStateFile;
  const auto state = Json::parse(text_of_file(file), nullptr, /*allow_exceptions=*/false);
  if (!state.is_object()) {
    throw Error(ErrorKind::kData, file.string() + " is not a snapshot's state: it is not a JSON object",
                "use an earlier snapshot");
  }
  const auto data = state.find("data");
  return data == state.end() || data->is_null() ? std::string() : data->dump();
}

std::map<std::string, at::Tensor> extension_tensors(const std::filesystem::path& snapshot) {
  std::map<std::string, at::Tensor> out;
  for_each_extension_tensor(snapshot, [&](const std::string& name, const at::Tensor& tensor) { out[name] = tensor; });
  return out;
}

void for_each_extension_tensor(const std::filesystem::path& snapshot,
                               const std::function<void(const std::string& name, const at::Tensor&)>& take) {
  const auto path = snapshot / kExtensionsFile;
  if (!std::filesystem::exists(path)) return;
  const auto file = SafetensorsFile::open(path);
  for (const auto& each : file.tensors()) take(each.name, tensor_from(each.dtype, each.shape, each.bytes));
}

std::string weights_digest(const torch::nn::Module& module) {
  Xxh3Stream hash;
  const auto add = [&](const auto& named) {
    for (const auto& item : named) {
      const auto tensor = item.value().detach().to(at::kCPU).contiguous();
      const std::string head =
          item.key() + " " + dtype_name(tensor.scalar_type()) + " " + shape_text(tensor.sizes()) + "\n";
      hash.update(std::as_bytes(std::span(head)));
      hash.update(bytes_of(tensor));
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return hash.digest128_hex();
}

}  // namespace lockstep
