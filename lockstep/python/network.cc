// SPDX-License-Identifier: Apache-2.0
#include "lockstep/python/network.h"

#include <memory>
#include <string>
#include <utility>

#include "lockstep/python/python_module.h"
#include "lockstep/python/steps.h"
#include "lockstep/python/tensors.h"
#include "lockstep/train/task/own_steps.h"

namespace py = pybind11;

namespace lockstep {
namespace {

class PythonNetwork final : public Network, public WithOwnSteps {
 public:
  PythonNetwork(PythonObject module, PythonObject steps) {
    in_python([&] {
      module_ = std::make_shared<PythonModule>(std::move(module), *this);
      output_of_ = std::make_unique<PythonObject>(py::module_::import("lockstep_host.modules").attr("output_of"));
      if (!(*steps).is_none()) steps_ = make_python_steps(module_, std::move(steps));
    });
  }

  std::string why_not_recorded() const override { return "the model is Python's, whose code runs anew in each step"; }
  OwnSteps* own_steps() override { return steps_.get(); }

  at::Tensor forward(const at::Tensor& input) override {
    return in_python([&] {
      module_->prepare(input, is_training());
      const auto given = to_python(input);
      auto output = py::reinterpret_steal<py::object>(PyObject_CallOneArg(module_->object().ptr(), given.ptr()));
      if (!output) throw py::error_already_set();
      if (!is_tensor(output)) output = (**output_of_)(output);
      return at::Tensor(to_tensor(output));
    });
  }

  void train(bool on) override {
    Network::train(on);
    in_python([&] { module_->object().attr("train")(on); });
  }

 private:
  std::shared_ptr<PythonModule> module_;
  std::unique_ptr<PythonObject> output_of_;
  std::unique_ptr<OwnSteps> steps_;
};

}  // namespace

std::shared_ptr<Network> make_python_network(PythonObject module, PythonObject steps) {
  return std::make_shared<PythonNetwork>(std::move(module), std::move(steps));
}

}  // namespace lockstep
