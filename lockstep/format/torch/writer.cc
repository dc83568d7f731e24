// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/optimizer_names.h"
#include "lockstep/format/torch/names.h"
#include "lockstep/format/torch/pickle_writer.h"
#include "lockstep/format/torch/zip_writer.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kStep = "step";

// Settings in PyTorch's param_groups that Lockstep does not have. They get PyTorch's defaults.
constexpr std::string_view kSgdDefaults =
    R"({"maximize": false, "foreach": null, "differentiable": false, "fused": null})";
constexpr std::string_view kAdamDefaults =
    R"({"maximize": false, "foreach": null, "capturable": false, "differentiable": false, "fused": null})";

/// The pickle of a checkpoint, and the storages to which it refers.
class CheckpointPickle {
 public:
  void put_state_dict(std::span<const TensorEntry> tensors) {
    pickle_.open_ordered_dict();
    for (const auto& tensor : tensors) {
      pickle_.text(tensor.name);
      put_tensor(tensor);
    }
    pickle_.close_dict();
  }

  void put_checkpoint(std::span<const TensorEntry> model, const SavedOptimizer& optimizer) {
    pickle_.open_dict();
    pickle_.text("model");
    put_state_dict(model);
    pickle_.text("optimizer");
    put_optimizer(optimizer);
    pickle_.close_dict();
  }

  std::string finished() { return pickle_.finished(); }
  /// Returns the storages in the order of their keys "0", "1" and so on.
  const std::vector<std::span<const std::byte>>& storages() const { return storages_; }

 private:
  void put_tensor(const TensorEntry& tensor) {
    const auto storage = storage_of_dtype(tensor.dtype);
    if (!storage) {
      throw Error(ErrorKind::kData,
                  "'" + tensor.name + "' is " + tensor.dtype + ", for which torch has no storage class",
                  "export to FILE.safetensors instead");
    }
    const std::size_t width = dtype_bytes(tensor.dtype, tensor.name);
    pickle_.global("torch._utils", "_rebuild_tensor_v2");
    pickle_.open_tuple();
    pickle_.open_tuple();
    pickle_.text("storage");
    pickle_.global("torch", *storage);
    pickle_.text(std::to_string(storages_.size()));
    pickle_.text("cpu");
    pickle_.integer(static_cast<std::int64_t>(tensor.bytes.size() / width));
    pickle_.close_tuple();
    pickle_.persistent();
    pickle_.integer(0);
    pickle_.tuple(tensor.shape);
    pickle_.tuple(row_major_strides(tensor.shape));
    pickle_.flag(false);  // requires_grad
    pickle_.open_ordered_dict();
    pickle_.close_dict();
    pickle_.close_tuple();
    pickle_.call();
    storages_.push_back(tensor.bytes);
  }

  static std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
    return strides;
  }

  void put_optimizer(const SavedOptimizer& optimizer) {
    const auto parts = parts_by_parameter(optimizer);
    pickle_.open_dict();
    pickle_.text("state");
    pickle_.open_dict();
    std::int64_t number = 0;
    std::size_t placed = 0;
    for (const auto& group : optimizer.groups) {
      for (const auto& parameter : group.parameters) {
        const auto found = parts.find(parameter);
        if (found != parts.end()) put_state(number, found->second);
        placed += found == parts.end() ? 0 : 1;
        ++number;
      }
    }
    if (placed != parts.size()) fail_state("for parameters that none of its groups has");
    pickle_.close_dict();
    pickle_.text("param_groups");
    put_groups(optimizer);
    pickle_.close_dict();
  }

  using Parts = std::map<std::string, const TensorEntry*>;

  static std::map<std::string, Parts> parts_by_parameter(const SavedOptimizer& optimizer) {
    std::map<std::string, Parts> parts;
    for (const auto& tensor : optimizer.state) {
      const auto parsed = parsed_optimizer_tensor(tensor.name, 1);
      if (!parsed) fail_state("called '" + tensor.name + "', want PARAMETER.PART");
      parts[parsed->parameter][parsed->part] = &tensor;
    }
    return parts;
  }

  [[noreturn]] static void fail_state(const std::string& fact) {
    throw Error(ErrorKind::kData, "the optimizer has state " + fact,
                "--weights exports the model alone; the snapshot was written by another version, or is damaged");
  }

  void put_state(std::int64_t number, const Parts& parts) {
    pickle_.integer(number);
    pickle_.open_dict();
    for (const auto& [part, tensor] : parts) {
      pickle_.text(part);
      put_tensor(part == kStep ? float_step(*tensor) : *tensor);
    }
    pickle_.close_dict();
  }

  /// PyTorch's optimizers keep their count of steps in float32.
  TensorEntry float_step(const TensorEntry& step) {
    std::int64_t count = 0;
    if (step.dtype != "I64" || step.bytes.size() != sizeof count) fail_state("'step' of " + step.dtype + ", want I64");
    std::memcpy(&count, step.bytes.data(), sizeof count);
    const float& kept = steps_.emplace_back(static_cast<float>(count));
    return {.name = step.name, .dtype = "F32", .shape = {}, .bytes = std::as_bytes(std::span(&kept, 1))};
  }

  void put_groups(const SavedOptimizer& optimizer) {
    pickle_.open_list();
    std::int64_t number = 0;
    for (const auto& group : optimizer.groups) {
      Json settings = Json::parse(optimizer.name == "sgd" ? kSgdDefaults : kAdamDefaults);
      if (optimizer.name != "sgd") settings["decoupled_weight_decay"] = optimizer.name == "adamw";
      settings.update(group.settings);
      pickle_.open_dict();
      for (const auto& [key, value] : settings.items()) {
        pickle_.text(key);
        put_setting(value);
      }
      pickle_.text("params");
      pickle_.open_list();
      for (std::size_t i = 0; i < group.parameters.size(); ++i) pickle_.integer(number++);
      pickle_.close_list();
      pickle_.text("param_names");
      pickle_.open_list();
      for (const auto& name : group.parameters) pickle_.text(name);
      pickle_.close_list();
      pickle_.close_dict();
    }
    pickle_.close_list();
  }

  void put_setting(const Json& value) {
    if (value.is_null()) return pickle_.none();
    if (value.is_boolean()) return pickle_.flag(value.get<bool>());
    if (value.is_number_integer()) return pickle_.integer(value.get<std::int64_t>());
    if (value.is_number()) return pickle_.real(value.get<double>());
    if (value.is_string()) return pickle_.text(value.get<std::string>());
    pickle_.open_tuple();
    for (const auto& part : value) put_setting(part);
    pickle_.close_tuple();
  }

  PickleWriter pickle_;
  std::vector<std::span<const std::byte>> storages_;
  std::deque<float> steps_;
};

/// Calls `write` to fill a file with a temporary name, syncs the file, and renames it to `path`.
void replace_file(const fs::path& path, const std::function<void(int fd, const fs::path& temporary)>& write) {
  fs::path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid());
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) throw io_error("create", temporary, errno);
  try {
    write(file.get(), temporary);
    if (::fsync(file.get()) != 0) throw io_error("sync", temporary, errno);
    if (::close(file.release()) != 0) throw io_error("close", temporary, errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw io_error("rename", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(path.parent_path());
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

void write_torch_file(const fs::path& path, std::span<const TensorEntry> model,
                      const std::optional<SavedOptimizer>& optimizer) {
  CheckpointPickle checkpoint;
  if (optimizer) {
    checkpoint.put_checkpoint(model, *optimizer);
  } else {
    checkpoint.put_state_dict(model);
  }
  const std::string pickle = checkpoint.finished();
  replace_file(path, [&](int fd, const fs::path& temporary) {
    ZipWriter zip(fd, temporary);
    zip.add("archive/data.pkl", bytes_of(pickle));
    zip.add("archive/byteorder", bytes_of("little"));
    for (std::size_t i = 0; i < checkpoint.storages().size(); ++i) {
      zip.add("archive/data/" + std::to_string(i), checkpoint.storages()[i]);
    }
    zip.add("archive/version", bytes_of("3\n"));
    zip.finish();
  });
}

void write_safetensors_file(const fs::path& path, std::span<const TensorEntry> model) {
  replace_file(path, [&](int fd, const fs::path& temporary) {
    write_safetensors(fd, temporary, model, {{"format", "pt"}});
  });
}

}  // namespace lockstep
