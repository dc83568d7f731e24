// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/script_network.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/device/dtype.h"

namespace lockstep {
namespace {

const char* const kExport = "export it with python/export_model.py, which scripts it in training mode";

// The TorchScript operators that behave differently in training, each with the index of its argument for this. The
// argument is true in training.
struct ModalOperator {
  const char* name;
  const char* argument;
};
constexpr std::array<ModalOperator, 8> kModal = {{{"aten::dropout", "train"},
                                                  {"aten::feature_dropout", "train"},
                                                  {"aten::alpha_dropout", "train"},
                                                  {"aten::feature_alpha_dropout", "train"},
                                                  {"aten::native_dropout", "train"},
                                                  {"aten::batch_norm", "training"},
                                                  {"aten::native_batch_norm", "training"},
                                                  {"aten::instance_norm", "use_input_stats"}}};

using Found = std::set<std::pair<std::string, bool>>;  // An operator, and the mode that it is fixed to.

using Look = std::function<void(const torch::jit::Node&)>;

void look_at_each(torch::jit::Block* block, const Look& look) {
  for (auto* node : block->nodes()) {
    for (auto* inner : node->blocks()) look_at_each(inner, look);
    look(*node);
  }
}

// Visits every operation of forward() and of the functions that it calls.
void look_at_each(const torch::jit::Module& module, const Look& look) {
  auto graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  look_at_each(graph->block(), look);
}

void require_free_mode(const torch::jit::Module& module, const std::string& file) {
  Found found;
  look_at_each(module, [&](const torch::jit::Node& node) {
    for (const auto& modal : kModal) {
      if (node.kind() != c10::Symbol::fromQualString(modal.name)) continue;
      // Instance normalisation without running statistics uses those of the input in both modes.
      const auto mode = torch::jit::toIValue(node.namedInput(modal.argument));
      if (!mode || !mode->isBool()) continue;
      if (node.kind() == c10::Symbol::fromQualString("aten::instance_norm") && mode->toBool()) continue;
      found.emplace(std::string(modal.name).substr(6), mode->toBool());
    }
  });
  if (found.empty()) return;
  const auto& [name, mode] = *found.begin();
  throw Error(ErrorKind::kData,
              "'" + file + "': " + name + " is fixed to " + (mode ? "training" : "evaluation") +
                  " mode: the model was traced, and so would " +
                  (mode ? "train while it is validated" : "be trained as in evaluation"),
              kExport);
}

bool is_one_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Returns why a repeated recording of this operation would differ. Empty if it would not. Only operations that a device
// records without an error are checked here. For a wait for a copy, or a shape that depends on numbers, recording
// itself fails.
std::string what_breaks(const torch::jit::Node& node) {
  const std::string name = node.kind().toQualString();
  const auto inputs = node.inputs();
  if (name == "prim::SetAttr")
    return "it keeps '" + node.s(c10::attr::name) + "' from step to step, which a replay would not";
  if (is_one_of(name, {"prim::CallMethod", "prim::CallFunction", "prim::fork"}))
    return "what it calls is known only when it runs";
  if (!node.kind().is_aten() && !node.kind().is_prim()) return "what its operator " + name + " does is unknown";
  if (is_one_of(name, {"aten::item", "aten::Bool", "aten::Int", "aten::Float", "aten::Complex", "aten::IntImplicit",
                       "aten::FloatImplicit", "aten::ComplexImplicit", "aten::ScalarImplicit", "aten::is_nonzero",
                       "aten::equal", "aten::allclose", "prim::tolist"}) &&
      inputs.at(0)->type()->isSubtypeOf(*c10::TensorType::get())) {
    return "its " + name + " reads a tensor's numbers on the host";
  }
  if (is_one_of(name, {"aten::append", "aten::extend", "aten::insert", "aten::_set_item", "aten::pop", "aten::clear",
                       "aten::Delete", "aten::update"}) &&
      inputs.at(0)->node()->kind() == c10::prim::GetAttr) {
    return "it keeps '" + inputs[0]->node()->s(c10::attr::name) + "' from step to step, which a replay would not";
  }
  if (node.maybeSchema() != nullptr && node.hasNamedInput("non_blocking")) {
    const auto goes_on = torch::jit::toIValue(node.namedInput("non_blocking"));
    if (!goes_on || goes_on->isNone() || goes_on->toBool()) return "its " + name + " does not wait for what it copies";
  }
  return {};
}

// Rebuilds the module's tree over the same tensors, as a torch::nn::Module. The code that registers, counts and saves
// parameters works only with torch::nn::Module.
void mirror(const torch::jit::Module& from, torch::nn::Module& to) {
  for (const auto& each : from.named_parameters(/*recurse=*/false)) {
    to.register_parameter(each.name, each.value, each.value.requires_grad());
  }
  for (const auto& each : from.named_buffers(/*recurse=*/false)) to.register_buffer(each.name, each.value);
  for (const auto& child : from.named_children()) {
    auto inner = std::make_shared<torch::nn::Module>(child.name);
    mirror(child.value, *inner);
    to.register_module(child.name, inner);
  }
}

class ScriptNetwork final : public Network {
 public:
  explicit ScriptNetwork(torch::jit::Module script) : script_(std::move(script)) {
    mirror(script_, *this);
    look_at_each(script_, [this](const torch::jit::Node& node) {
      if (why_not_recorded_.empty()) why_not_recorded_ = what_breaks(node);
    });
    if (!why_not_recorded_.empty()) why_not_recorded_ = "of the model: " + why_not_recorded_;
  }

  std::string why_not_recorded() const override { return why_not_recorded_; }

  at::Tensor forward(const at::Tensor& input) override { return script_.forward({input}).toTensor(); }

  void train(bool on) override {
    Network::train(on);
    script_.train(on);
  }

 private:
  torch::jit::Module script_;
  std::string why_not_recorded_;
};

torch::jit::Module loaded(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    throw Error(ErrorKind::kIo, "model.name: there is no file '" + file.string() + "'", kExport);
  }
  try {
    return torch::jit::load(file.string());
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kData, "'" + file.string() + "' is no TorchScript model: " + error.what_without_backtrace(),
                kExport);
  }
}

// Runs one forward of two samples of zeros, of the data's own type. So wrong shapes are found before the run begins.
void require_shapes(ScriptNetwork& network, const std::string& file, const NetworkOptions& options) {
  auto shape = options.input_shape;
  shape.insert(shape.begin(), 2);
  const std::string batch = options.takes_text ? "a batch of ids I64 " : "a batch of ";
  const torch::NoGradGuard no_grad;
  network.train(false);
  at::Tensor output;
  try {
    output = network.forward(at::zeros(shape, options.takes_text ? at::kLong : at::kFloat));
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw Error(ErrorKind::kData,
                "'" + file + "' cannot take " + batch + shape_text(shape) + ": " +
                    what.substr(what.rfind("Error: ") == std::string::npos ? 0 : what.rfind("Error: ") + 7),
                "give it the data set's shape, or change the data with data.transforms");
  }
  network.train(true);
  auto wanted = options.takes_text ? shape : std::vector<std::int64_t>{2};
  wanted.push_back(options.classes);
  if (output.sizes() == at::IntArrayRef(wanted)) return;
  throw Error(ErrorKind::kData,
              "'" + file + "' makes " + shape_text(output.sizes()) + " of " + batch + shape_text(shape) +
                  ", the data set's " + (options.takes_text ? "text wants " : "classes want ") + shape_text(wanted),
              "give its last layer " + std::to_string(options.classes) + " outputs" +
                  (options.takes_text ? " for each place of the text" : ""));
}

}  // namespace

std::shared_ptr<Network> make_script_network(const std::filesystem::path& file, const NetworkOptions& options) {
  auto script = loaded(file);
  require_free_mode(script, file.string());
  auto network = std::make_shared<ScriptNetwork>(std::move(script));
  if (parameter_count(*network) == 0) {
    throw Error(ErrorKind::kData, "'" + file.string() + "' has no parameter to train: it was frozen", kExport);
  }
  require_shapes(*network, file.string(), options);
  return network;
}

}  // namespace lockstep
