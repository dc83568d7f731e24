// SPDX-License-Identifier: Apache-2.0
#include "lockstep/python/python_module.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>

#include "lockstep/python/tensors.h"

namespace py = pybind11;

namespace lockstep {
namespace {

std::string key_of(const std::pair<py::handle, py::handle>& item) { return py::cast<std::string>(item.first); }

// Registers a Python module's tensors under the names of its state_dict(). A module that was registered twice is
// visited twice. Buffers that are not in snapshots are added to `passing`.
void mirror(py::handle from, torch::nn::Module& to, std::vector<at::Tensor>& passing) {
  for (const auto& item : py::cast<py::dict>(from.attr("_parameters"))) {
    if (item.second.is_none()) continue;
    const auto& tensor = to_tensor(item.second);
    to.register_parameter(key_of(item), tensor, tensor.requires_grad());
  }
  const auto not_persistent = py::cast<py::set>(from.attr("_non_persistent_buffers_set"));
  for (const auto& item : py::cast<py::dict>(from.attr("_buffers"))) {
    if (item.second.is_none()) continue;
    if (not_persistent.contains(item.first)) {
      passing.push_back(to_tensor(item.second));
    } else {
      to.register_buffer(key_of(item), to_tensor(item.second));
    }
  }
  for (const auto& item : py::cast<py::dict>(from.attr("_modules"))) {
    if (item.second.is_none()) continue;
    auto inner = std::make_shared<torch::nn::Module>(key_of(item));
    mirror(item.second, *inner, passing);
    to.register_module(key_of(item), inner);
  }
}

}  // namespace

// torch.compile() wraps a module. The names of the wrapped module are used.
PythonModule::PythonModule(PythonObject module, torch::nn::Module& to)
    : module_(std::move(module)), seed_(py::module_::import("lockstep_host.modules").attr("seed_other_generators")) {
  mirror(py::getattr(*module_, "_orig_mod", *module_), to, passing_);
}

void PythonModule::prepare(const at::Tensor& input, bool is_training) {
  follow(input);
  if (is_training) seed_other_generators();
}

// The trainer does not know the buffers that are not in snapshots, so they are moved here.
void PythonModule::follow(const at::Tensor& input) {
  for (auto& each : passing_) {
    const auto type = each.is_floating_point() && input.is_floating_point() ? input.scalar_type() : each.scalar_type();
    if (each.device() == input.device() && each.scalar_type() == type) continue;
    each.set_data(each.to(input.device(), type));
  }
}

// The trainer seeds LibTorch's generators for each step, so that a resumed run draws the same numbers as an
// uninterrupted one.
void PythonModule::seed_other_generators() {
  const auto seed = at::detail::getDefaultCPUGenerator().current_seed();
  if (seed == last_seed_) return;
  last_seed_ = seed;
  (*seed_)(seed);
}

}  // namespace lockstep
