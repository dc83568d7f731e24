// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/weights.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/pattern.h"
#include "lockstep/base/text.h"
#include "lockstep/device/dtype.h"
#include "lockstep/format/weights/weights_file.h"

namespace lockstep {
namespace {

constexpr const char* kExceptKey = "model.weights_except";
constexpr const char* kFreezeKey = "model.freeze";

struct Renamed {
  std::string_view now;
  std::string_view before;
};
// Old names of parameters, and their new names. Hugging Face's first files have TensorFlow's names. Older versions of
// torchvision's ViT had no numbers in the MLP.
constexpr std::array<Renamed, 4> kRenamed = {{{"LayerNorm.weight", "LayerNorm.gamma"},
                                              {"LayerNorm.bias", "LayerNorm.beta"},
                                              {".mlp.0.", ".mlp.linear_1."},
                                              {".mlp.3.", ".mlp.linear_2."}}};

// Buffers that older files lack, or have in addition. Their values are 0, 1, 2 and so on, so they need not be read.
constexpr std::string_view kCounter = ".num_batches_tracked";
constexpr std::string_view kPositions = ".position_ids";

bool fits_any(std::string_view name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const auto& pattern) { return fits_pattern(name, pattern); });
}

std::string older_name(const std::string& name) {
  for (const auto& each : kRenamed) {
    const auto at = name.find(each.now);
    if (at != std::string::npos) return std::string(name).replace(at, each.now.size(), each.before);
  }
  return name;
}

void check_patterns(const char* key, const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                    const std::string& whose) {
  for (const auto& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const auto& name) { return fits_pattern(name, pattern); })) continue;
    const auto near = nearest_name(pattern, names);
    std::vector<std::string> some(names.begin(),
                                  names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 8)));
    throw Error(ErrorKind::kRecipe, std::string(key) + ": '" + pattern + "' matches no " + whose,
                near ? "did you mean '" + *near + "'?"
                     : "names are such as " + joined(some, ", ") + "; * stands for any letters");
  }
}

// Returns the pattern that matches all parameters of a parameter's layer, such as "fc.*" for fc.weight.
std::string pattern_of_layer(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot) + ".*";
}

class Loading {
 public:
  Loading(torch::nn::Module& module, const std::filesystem::path& path, const WeightsOptions& options)
      : path_(path), options_(options), file_(open_weights(path)) {
    for (auto& item : module.named_parameters()) entries_.emplace_back(item.key(), item.value());
    for (auto& item : module.named_buffers()) entries_.emplace_back(item.key(), item.value());
    std::vector<std::string> names;
    for (const auto& [name, tensor] : entries_) names.push_back(name);
    report_.prefix = file_.fit(names);
    for (const auto& tensor : file_.tensors()) {
      left_.insert(tensor.name);
      names.push_back(tensor.name);
    }
    check_patterns(kExceptKey, options_.except, names, "tensor of the model or of " + path_.string());
  }

  LoadedWeights run() {
    for (const auto& [name, tensor] : entries_) match(name, tensor);
    for (const auto& name : missing_) find_tied(name);
    for (const auto& name : left_) {
      if (fits_any(name, options_.except) || name.ends_with(kPositions)) {
        report_.unused.push_back(name);
      } else {
        faults_.push_back("'" + name + "' is not in the model");
        layers_.insert(pattern_of_layer(name));
      }
    }
    if (!faults_.empty()) refuse();
    const torch::NoGradGuard no_grad;
    for (auto& [to, from] : found_) to.detach().copy_(tensor_from(from->dtype, from->shape, from->bytes));
    return std::move(report_);
  }

 private:
  void match(const std::string& name, const at::Tensor& tensor) {
    if (fits_any(name, options_.except)) {
      report_.initial.push_back(name);
      return;
    }
    const auto* entry = file_.find(name);
    if (entry == nullptr) entry = file_.find(older_name(name));
    if (entry == nullptr) {
      missing_.push_back(name);
      return;
    }
    left_.erase(entry->name);
    const auto type = scalar_type_of(entry->dtype);
    if (tensor.sizes() != at::IntArrayRef(entry->shape)) {
      faults_.push_back("'" + name + "' is " + shape_text(entry->shape) + ", want " + shape_text(tensor.sizes()));
      layers_.insert(pattern_of_layer(name));
    } else if (type != tensor.scalar_type() && !(at::isFloatingType(type) && tensor.is_floating_point())) {
      faults_.push_back("'" + name + "' is " + entry->dtype + ", want " + dtype_name(tensor.scalar_type()));
    } else {
      found_.emplace_back(tensor, entry);
      found_tensors_.insert(tensor.unsafeGetTensorImpl());
    }
  }

  void find_tied(const std::string& name) {
    const auto it = std::ranges::find_if(entries_, [&](const auto& each) { return each.first == name; });
    if (found_tensors_.contains(it->second.unsafeGetTensorImpl())) return;
    if (name.ends_with(kCounter)) {
      report_.initial.push_back(name);
      return;
    }
    faults_.push_back("'" + name + "' is missing");
    layers_.insert(pattern_of_layer(name));
  }

  [[noreturn]] void refuse() {
    constexpr std::size_t kShown = 8;
    // If the file belongs to an entirely different model, a list of layers would not help.
    const bool is_a_few = !layers_.empty() && layers_.size() <= 3;
    std::vector<std::string> quoted;
    for (const auto& layer : layers_) quoted.push_back("\"" + layer + "\"");
    const auto count = faults_.size();
    faults_.resize(std::min(count, kShown));
    throw Error(ErrorKind::kData,
                path_.string() + " does not fit the model: " + joined(faults_, "; ") +
                    (count > kShown ? "; and " + std::to_string(count - kShown) + " more" : ""),
                is_a_few ? "to initialize these at random, as a new head for other classes: " +
                               std::string(kExceptKey) + " = [" + joined(quoted, ", ") + "]"
                         : "build the model that these weights came from, or leave model.weights out");
  }

  const std::filesystem::path& path_;
  const WeightsOptions& options_;
  WeightsFile file_;
  std::vector<std::pair<std::string, at::Tensor>> entries_;
  std::set<std::string> left_;
  std::vector<std::string> missing_;
  std::vector<std::string> faults_;
  std::set<std::string> layers_;  ///< Of the faults, as patterns.
  std::vector<std::pair<at::Tensor, const TensorEntry*>> found_;
  std::unordered_set<const void*> found_tensors_;
  LoadedWeights report_;
};

}  // namespace

LoadedWeights load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                           const WeightsOptions& options) {
  return Loading(module, path, options).run();
}

void freeze(torch::nn::Module& module, const std::vector<std::string>& patterns) {
  const auto named = module.named_parameters();
  check_patterns(kFreezeKey, patterns, named.keys(), "parameter of the model");
  std::unordered_set<const void*> frozen;
  for (const auto& item : named) {
    if (fits_any(item.key(), patterns)) frozen.insert(item.value().unsafeGetTensorImpl());
  }
  const bool is_any_left = std::ranges::any_of(
      named, [&](const auto& item) { return !frozen.contains(item.value().unsafeGetTensorImpl()); });
  if (!is_any_left && named.size() > 0) {
    throw Error(ErrorKind::kRecipe, std::string(kFreezeKey) + " leaves no parameter to train, want at least one",
                "leave the head out, as in \"layer*\" or \"bert.*\"");
  }
  for (const auto& item : named) {
    if (frozen.contains(item.value().unsafeGetTensorImpl())) item.value().requires_grad_(false);
  }
}

}  // namespace lockstep
