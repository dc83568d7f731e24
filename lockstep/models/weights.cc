// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/device/dtype.h"
#include "lockstep/format/safetensors.h"
#include "lockstep/models/network.h"

namespace lockstep {

void load_weights(torch::nn::Module& module, const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  std::set<std::string> left;
  for (const auto& entry : file.tensors()) left.insert(entry.name);
  std::vector<std::string> faults;
  std::vector<std::pair<at::Tensor, at::Tensor>> found;
  const torch::NoGradGuard no_grad;
  const auto load = [&](const auto& named) {
    for (const auto& item : named) {
      const auto* entry = file.find(item.key());
      if (entry == nullptr) {
        faults.push_back("'" + item.key() + "' is missing");
        continue;
      }
      left.erase(item.key());
      if (item.value().sizes() != at::IntArrayRef(entry->shape)) {
        faults.push_back("'" + item.key() + "' is " + shape_text(entry->shape) + ", want " +
                         shape_text(item.value().sizes()));
        continue;
      }
      const auto tensor = tensor_from(entry->dtype, entry->shape, entry->bytes);
      if (tensor.scalar_type() != item.value().scalar_type() &&
          !(tensor.is_floating_point() && item.value().is_floating_point())) {
        faults.push_back("'" + item.key() + "' is " + entry->dtype + ", want " +
                         dtype_name(item.value().scalar_type()));
        continue;
      }
      found.emplace_back(item.value().detach(), tensor);
    }
  };
  load(module.named_parameters());
  load(module.named_buffers());
  for (const auto& name : left) faults.push_back("'" + name + "' is not in the model");
  if (faults.empty()) {
    for (auto& [to, from] : found) to.copy_(from);
    return;
  }
  const auto count = faults.size();
  if (count > 8) faults.resize(8);
  throw Error(ErrorKind::kData,
              path.string() + " does not fit the model: " + joined(faults, "; ") + (count > 8 ? "; and more" : ""),
              "build the model that these weights came from, or leave model.weights out");
}

}  // namespace lockstep
