// SPDX-License-Identifier: Apache-2.0
#include "lockstep/python/network.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/python/tensors.h"

namespace py = pybind11;

namespace lockstep {
namespace {

std::string key_of(const std::pair<py::handle, py::handle>& item) { return py::cast<std::string>(item.first); }

// A Python module that was registered twice is visited twice. The names are those of state_dict().
class Mirror {
 public:
  void add(py::handle from, torch::nn::Module& to) {
    for (const auto& item : py::cast<py::dict>(from.attr("_parameters"))) {
      if (item.second.is_none()) continue;
      const auto& tensor = to_tensor(item.second);
      to.register_parameter(key_of(item), tensor, tensor.requires_grad());
    }
    const auto passing = py::cast<py::set>(from.attr("_non_persistent_buffers_set"));
    for (const auto& item : py::cast<py::dict>(from.attr("_buffers"))) {
      if (item.second.is_none()) continue;
      if (passing.contains(item.first)) {
        passing_.push_back(to_tensor(item.second));
      } else {
        to.register_buffer(key_of(item), to_tensor(item.second));
      }
    }
    for (const auto& item : py::cast<py::dict>(from.attr("_modules"))) {
      if (item.second.is_none()) continue;
      auto inner = std::make_shared<torch::nn::Module>(key_of(item));
      add(item.second, *inner);
      to.register_module(key_of(item), inner);
    }
  }

  /// Returns the buffers that are not in a snapshot (registered with persistent=False).
  std::vector<at::Tensor> passing() && { return std::move(passing_); }

 private:
  std::vector<at::Tensor> passing_;
};

class PythonNetwork final : public Network {
 public:
  explicit PythonNetwork(PythonObject module) : module_(std::move(module)) {
    in_python([this] {
      Mirror mirror;
      // torch.compile wraps a module in another one. The names must be those of the module inside.
      const py::object inner = py::getattr(*module_, "_orig_mod", *module_);
      mirror.add(inner, *this);
      passing_ = std::move(mirror).passing();
      const auto modules = py::module_::import("lockstep_host.modules");
      output_of_ = std::make_unique<PythonObject>(modules.attr("output_of"));
      seed_ = std::make_unique<PythonObject>(modules.attr("seed_other_generators"));
    });
  }

  std::string why_not_recorded() const override { return "the model is Python's, whose code runs anew in each step"; }

  at::Tensor forward(const at::Tensor& input) override {
    follow(input);
    return in_python([&] {
      seed_other_generators();
      const auto given = to_python(input);
      auto output = py::reinterpret_steal<py::object>(PyObject_CallOneArg((*module_).ptr(), given.ptr()));
      if (!output) throw py::error_already_set();
      if (!is_tensor(output)) output = (**output_of_)(output);
      return at::Tensor(to_tensor(output));
    });
  }

  void train(bool on) override {
    Network::train(on);
    in_python([&] { (*module_).attr("train")(on); });
  }

 private:
  // The trainer does not know buffers that no snapshot holds, so they are moved here, to the input's device.
  void follow(const at::Tensor& input) {
    for (auto& each : passing_) {
      const auto type =
          each.is_floating_point() && input.is_floating_point() ? input.scalar_type() : each.scalar_type();
      if (each.device() == input.device() && each.scalar_type() == type) continue;
      each.set_data(each.to(input.device(), type));
    }
  }

  // The trainer seeds LibTorch's generators for each step, so that a resumed run draws what it would have drawn.
  // Python's and NumPy's follow.
  void seed_other_generators() {
    if (!is_training()) return;
    const auto seed = at::detail::getDefaultCPUGenerator().current_seed();
    if (seed == last_seed_) return;
    last_seed_ = seed;
    (**seed_)(seed);
  }

  PythonObject module_;
  std::unique_ptr<PythonObject> output_of_;
  std::unique_ptr<PythonObject> seed_;
  std::optional<std::uint64_t> last_seed_;
  std::vector<at::Tensor> passing_;
};

}  // namespace

std::shared_ptr<Network> make_python_network(PythonObject module) {
  return std::make_shared<PythonNetwork>(std::move(module));
}

}  // namespace lockstep
