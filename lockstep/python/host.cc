// SPDX-License-Identifier: Apache-2.0
#include "lockstep/python/host.h"

#include <pybind11/stl.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/models/model_exception.h"
#include "lockstep/python/in_python.h"
#include "lockstep/python/network.h"
#include "lockstep/python/tensors.h"

namespace py = pybind11;

namespace lockstep {
namespace {

// Returns the settings of [model.args] as keyword arguments. A table in them becomes a dict.
py::dict arguments_of(const Recipe& recipe, const std::string& table) {
  py::dict out;
  for (const auto& [key, setting] : recipe.settings()) {
    if (!key.starts_with(table)) continue;
    auto words = split(std::string_view(key).substr(table.size()), '.');
    py::dict place = out;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (!place.contains(words[i].c_str())) place[words[i].c_str()] = py::dict();
      place = py::cast<py::dict>(place[words[i].c_str()]);
    }
    place[words.back().c_str()] = py::cast(setting.value);
  }
  return out;
}

}  // namespace

std::shared_ptr<Network> ThisPython::network(const Recipe& recipe, const NetworkOptions& options) {
  const auto name = *recipe.python_name("model.name");
  try {
    return in_python([&] {
      const auto modules = py::module_::import("lockstep_host.modules");
      py::object module =
          modules.attr("built")(name.source, name.object, arguments_of(recipe, "model.args."), options.classes);
      py::object steps = py::none();
      if (recipe.text("model.steps") == "own") steps = modules.attr("steps_of")(module, py::none());
      modules.attr("require_fit")(module, options.input_shape, options.classes, options.takes_text, steps);
      return make_python_network(PythonObject(std::move(module)), PythonObject(std::move(steps)));
    });
  } catch (const ModelException& error) {
    throw Error(ErrorKind::kRecipe, recipe.text("model.name") + " cannot be built: " + error.what(),
                "the last lines of the traceback say where");
  }
}

namespace {

using OfOutput = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

// `make` is the function of lockstep_host.modules that looks at the answers.
OfOutput function_of(const Recipe& recipe, const std::string& key, const char* make) {
  const auto name = *recipe.python_name(key);
  try {
    // A std::function may be copied. All copies share one Python object.
    const auto function = std::make_shared<PythonObject>(in_python([&] {
      return PythonObject(py::module_::import("lockstep_host.modules").attr(make)(name.source, name.object));
    }));
    return [function](const at::Tensor& output, const at::Tensor& target) {
      return in_python([&] {
        const py::object value = (**function)(to_python(output), to_python(target));
        return at::Tensor(to_tensor(value));
      });
    };
  } catch (const ModelException& error) {
    throw Error(ErrorKind::kRecipe, recipe.text(key) + " cannot be loaded: " + error.what(),
                "the last lines of the traceback say where");
  }
}

}  // namespace

OfOutput ThisPython::loss(const Recipe& recipe) { return function_of(recipe, "loss.name", "loss"); }

OfOutput ThisPython::metric(const Recipe& recipe, const std::string& key) { return function_of(recipe, key, "metric"); }

std::string ThisPython::executable() const {
  return in_python([] { return py::module_::import("sys").attr("executable").cast<std::string>(); });
}

}  // namespace lockstep
