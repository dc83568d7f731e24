// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/shared_restore.h"

#include <torch/torch.h>

#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_names.h"
#include "lockstep/snapshot/optimizer_state.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// A collective takes contiguous memory only, and weights may lie channels last.
void share(Group& group, const at::Tensor& tensor, int root) {
  auto flat = tensor.detach().contiguous();
  group.broadcast(flat, root);
  if (!flat.is_alias_of(tensor)) tensor.copy_(flat);
}

// Returns a list of an optimizer's tensors as JSON, from which the other ranks make room for them. An entry is [name,
// type, shape, count of steps].
std::string listed(const std::vector<SavedTensor>& tensors) {
  auto list = Json::array();
  for (const auto& [name, tensor, is_shared] : tensors) {
    const bool is_count = tensor.dim() == 0 && tensor.scalar_type() == at::kLong;
    list.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec(),
                    is_count ? tensor.item<std::int64_t>() : 0});
  }
  return list.dump();
}

// Makes tensors of the listed names, types and shapes without their values. Each has one number expanded to the whole
// shape, which takes no memory.
std::map<std::string, at::Tensor> stand_ins(const std::string& list) {
  std::map<std::string, at::Tensor> out;
  for (const auto& each : Json::parse(list)) {
    const auto type = static_cast<at::ScalarType>(each.at(1).get<int>());
    const auto number = at::full({}, each.at(3).get<std::int64_t>(), type);
    out[each.at(0)] = number.expand(each.at(2).get<std::vector<std::int64_t>>());
  }
  return out;
}

}  // namespace

TrainingState restore_shared(const std::filesystem::path& snapshot, torch::nn::Module& module,
                             torch::optim::Optimizer& optimizer, Group& group) {
  if (!group.is_connected()) return restore_snapshot(snapshot, module, optimizer);
  std::string text;
  on_rank_zero(group, [&] {
    restore_snapshot(snapshot, module, optimizer);
    text = text_of_file(snapshot / kStateFile);
  });
  auto state = parsed_state(group.broadcast_text(std::move(text)), snapshot / kStateFile);
  const torch::NoGradGuard no_grad;
  share_optimizer(module, optimizer, group, /*root=*/0, /*is_new=*/!group.is_main());
  return state;
}

void share_weights(torch::nn::Module& module, Group& group, int root) {
  if (!group.is_connected()) return;
  const torch::NoGradGuard no_grad;
  for (const auto& each : module.parameters()) share(group, each, root);
  for (const auto& each : module.buffers()) share(group, each, root);
}

void share_optimizer(torch::nn::Module& module, torch::optim::Optimizer& optimizer, Group& group, int root,
                     bool is_new) {
  const torch::NoGradGuard no_grad;
  const auto names = parameter_names(module);
  const bool is_root = group.rank() == root;
  const auto list = group.broadcast_text(is_root ? listed(optimizer_tensors(optimizer, names)) : "", root);
  if (!is_root && is_new) restore_optimizer(optimizer, names, stand_ins(list));
  for (const auto& [name, tensor, is_shared] : optimizer_tensors(optimizer, names)) {
    // The list above has the values of counts already.
    if (tensor.dim() > 0 || tensor.scalar_type() != at::kLong) share(group, tensor, root);
  }
}

std::map<std::string, at::Tensor> share_tensors(const std::vector<SavedTensor>& tensors, Group& group, int root) {
  const torch::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> out;
  const bool is_root = group.rank() == root;
  for (const auto& each : Json::parse(group.broadcast_text(is_root ? listed(tensors) : "", root))) {
    const auto type = static_cast<at::ScalarType>(each.at(1).get<int>());
    auto tensor = at::empty(each.at(2).get<std::vector<std::int64_t>>(), type);
    if (is_root) tensor.copy_(tensors.at(out.size()).tensor);
    group.broadcast(tensor, root);
    out[each.at(0)] = std::move(tensor);
  }
  return out;
}

// Tensors are sent one after the other, so that rank 0 never holds more than one. A compression's errors can be as
// large as the weights for each rank. Empty text ends the list, also after a failure, which all ranks then throw.
void for_each_shared_tensor(const std::filesystem::path& snapshot, Group& group,
                            const std::function<bool(const std::string& name)>& wants,
                            const std::function<void(const std::string& name, const at::Tensor&)>& take) {
  std::exception_ptr failure;
  const auto attempt = [&](const auto& work) {
    try {
      if (!failure) work();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  const auto hand_on = [&](const std::string& name, const at::Tensor& tensor) {
    auto flat = tensor.contiguous();
    if (group.is_connected()) {
      group.broadcast_text(listed({{name, flat, true}}));
      group.broadcast(flat);
    }
    attempt([&] { take(name, flat); });
  };
  if (group.is_main()) {
    attempt([&] {
      for_each_extension_tensor(snapshot, [&](const std::string& name, const at::Tensor& tensor) {
        if (wants(name)) hand_on(name, tensor);
      });
    });
    group.broadcast_text("");
  } else {
    for (auto text = group.broadcast_text(""); !text.empty(); text = group.broadcast_text("")) {
      const auto each = Json::parse(text).at(0);
      auto tensor =
          at::empty(each.at(2).get<std::vector<std::int64_t>>(), static_cast<at::ScalarType>(each.at(1).get<int>()));
      group.broadcast(tensor);
      attempt([&] { take(each.at(0), tensor); });
    }
  }
  on_every_rank(group, [&] {
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace lockstep
