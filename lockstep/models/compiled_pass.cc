// SPDX-License-Identifier: Apache-2.0
// How gradients are handed over while the backward pass still runs. python/lockstep_host/passes.py cuts the backward
// graph into stages. Each stage is a node of autograd's graph, made from the last stage to the first:
//
//     parameters of stage 1 ─→ [stage 1] ─ token ─→ [stage 0] ─→ output
//                                parameters of stage 0 ───┘
//
// The forward pass has run by then. So the nodes compute nothing when they are made, and a token without elements joins
// them. Backward visits them in the other direction. A stage takes the values that it needs from those that all stages
// share, and adds its own. Then it drops the values that no later stage needs, and returns its gradients. Autograd
// accumulates these gradients before the next stage runs. At that moment the reducer sends a full bucket.
#include "lockstep/models/compiled_pass.h"

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"
#include "lockstep/device/dtype.h"

namespace lockstep {
namespace {

constexpr const char* kCompile = "compile it anew with python/compile_model.py";

/// One input of the compiled forward pass.
struct Input {
  std::string name;  ///< Of a parameter or buffer. Empty for the batch.
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride;

  /// True if `tensor` has this layout. The stride of a dimension with one entry does not matter.
  bool is_laid_out_as(const at::Tensor& tensor) const {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != 1 && tensor.stride(static_cast<std::int64_t>(i)) != stride[i]) return false;
    }
    return true;
  }
  bool has_shape_of(const at::Tensor& tensor) const {
    return tensor.sizes() == at::IntArrayRef(shape) && dtype_name(tensor.scalar_type()) == dtype;
  }
  std::string text() const { return dtype + " " + shape_text(shape); }
};

void from_json(const nlohmann::json& json, Input& input) {
  json.at("name").get_to(input.name);
  json.at("dtype").get_to(input.dtype);
  json.at("shape").get_to(input.shape);
  json.at("stride").get_to(input.stride);
  LOCKSTEP_ASSERT(input.shape.size() == input.stride.size());
}

/// One stage of backward. Values have the numbers that passes.py gave them.
struct Stage {
  std::vector<std::size_t> takes;
  std::vector<std::size_t> gives;
};

void from_json(const nlohmann::json& json, Stage& stage) {
  json.at("takes").get_to(stage.takes);
  json.at("gives").get_to(stage.gives);
}

/// A value that is the gradient of a parameter.
struct Gradient {
  std::size_t value = 0;
  std::size_t parameter = 0;
};

void from_json(const nlohmann::json& json, Gradient& gradient) {
  json.at(0).get_to(gradient.value);
  json.at(1).get_to(gradient.parameter);
}

/// The facts about a compiled network that passes.py records.
struct Facts {
  std::string torch;
  std::string device;     ///< "cpu", "cuda"
  std::string precision;  ///< "fp32", "bf16", "fp16", "fp64"
  std::vector<Input> parameters;
  std::vector<Input> buffers;
  Input batch;
  Input tangent;  ///< The gradient of the output.
  std::vector<Stage> stages;
  std::vector<Gradient> gradients;
};

void from_json(const nlohmann::json& json, Facts& facts) {
  json.at("torch").get_to(facts.torch);
  json.at("device").get_to(facts.device);
  json.at("precision").get_to(facts.precision);
  json.at("parameters").get_to(facts.parameters);
  json.at("buffers").get_to(facts.buffers);
  json.at("batch").get_to(facts.batch);
  json.at("tangent").get_to(facts.tangent);
  json.at("stages").get_to(facts.stages);
  json.at("gradients").get_to(facts.gradients);
}

using Package = torch::inductor::AOTIModelPackageLoader;

std::unique_ptr<Package> opened(const std::filesystem::path& file, const std::string& which) {
  try {
    // Single-threaded, since a graph cannot record the synchronization of several threads.
    return std::make_unique<Package>(file.string(), which, /*run_single_threaded=*/true);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kData,
                "'" + file.string() + "' holds no compiled network: " + std::string(first_line(error.what())),
                kCompile);
  }
}

Facts facts_of(Package& forward, const std::string& file) {
  Facts facts;
  const auto said = forward.get_metadata();
  try {
    nlohmann::json::parse(said.at("lockstep")).get_to(facts);
  } catch (const std::exception&) {
    throw Error(ErrorKind::kData, "'" + file + "' does not say which network it was compiled from", kCompile);
  }
  const std::string_view built = TORCH_VERSION;
  if (facts.torch == built) return facts;
  throw Error(ErrorKind::kEnvironment,
              "'" + file + "' was compiled with PyTorch " + facts.torch + ", this is " + std::string(built), kCompile);
}

std::string name_of_stage(std::size_t number) { return "backward" + std::to_string(number); }

/// A stage of backward, with lists that are derived from the facts.
struct LoadedStage {
  Stage values;
  std::vector<std::size_t> ends;    ///< Values that no later stage needs.
  std::vector<Gradient> gradients;  ///< Gradients that are ready at the stage's end.
  std::unique_ptr<Package> package;
};

std::string precision_of(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : type == at::kDouble ? "fp64" : "fp32";
}

/// The values of one backward pass, which its stages share.
struct Values : torch::CustomClassHolder {
  const CompiledPass::Impl* pass = nullptr;
  std::vector<at::Tensor> all;  ///< By number. A value is undefined before its stage has run, and after its last use.
  std::vector<std::uint32_t> versions;  ///< Versions of the tensors that the forward pass saved.
  at::Tensor output;                    ///< The network's output, until its node is made.
};

}  // namespace

struct CompiledPass::Impl {
  Impl(const std::filesystem::path& path, const Network& network);

  void load_stages(const std::filesystem::path& path);
  std::vector<at::Tensor> found(const torch::OrderedDict<std::string, at::Tensor>& there,
                                const std::vector<Input>& wanted) const;
  void require_circumstances(const at::Tensor& batch);
  void set_buffers(const std::vector<at::Tensor>& values);
  c10::intrusive_ptr<Values> forward_values(const at::Tensor& batch);
  void add_tangent(Values& values, const at::Tensor& tangent) const;
  std::vector<at::Tensor> run_stage(Values& values, std::size_t number) const;

  std::string file;
  std::unique_ptr<Package> forward;
  Facts facts;
  std::vector<LoadedStage> stages;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> buffers;
  bool is_checked = false;
};

namespace {

// The node of autograd's graph for one stage. Its inputs are the parameters whose gradients it computes, and the token
// of the stage that backward runs next, if there is one.
struct StageNode : torch::autograd::Function<StageNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const c10::intrusive_ptr<Values>& values,
                            std::size_t number, at::TensorList inputs) {
    ctx->saved_data["values"] = at::IValue::make_capsule(values);
    ctx->saved_data["number"] = static_cast<std::int64_t>(number);
    if (number == 0) return std::exchange(values->output, {});
    return at::empty({0}, inputs.front().options().dtype(at::kFloat));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& tangents) {
    RECORD_USER_SCOPE("compiled backward");
    const auto held = ctx->saved_data["values"].toCapsule();
    auto& values = static_cast<Values&>(*held);
    const auto number = static_cast<std::size_t>(ctx->saved_data["number"].toInt());
    if (number == 0) values.pass->add_tangent(values, tangents.front());
    torch::autograd::variable_list gradients(2);  // For the arguments `values` and `number`, which have no gradient.
    for (auto& each : values.pass->run_stage(values, number)) gradients.push_back(std::move(each));
    if (number + 1 < values.pass->stages.size()) {
      gradients.push_back(at::empty({0}, gradients.back().options().dtype(at::kFloat)));
    }
    return gradients;
  }
};

}  // namespace

CompiledPass::Impl::Impl(const std::filesystem::path& path, const Network& network)
    : file(path.string()), forward(opened(path, "forward")), facts(facts_of(*forward, file)) {
  load_stages(path);
  parameters = found(network.named_parameters(), facts.parameters);
  buffers = found(network.named_buffers(), facts.buffers);
}

void CompiledPass::Impl::load_stages(const std::filesystem::path& path) {
  std::map<std::size_t, std::size_t> given_by;
  std::map<std::size_t, std::size_t> last_use;
  for (std::size_t number = 0; number < facts.stages.size(); ++number) {
    for (const auto value : facts.stages[number].takes) last_use[value] = number;
    for (const auto value : facts.stages[number].gives) {
      given_by[value] = number;
      last_use[value] = number;
    }
    stages.push_back({facts.stages[number], {}, {}, opened(path, name_of_stage(number))});
  }
  LOCKSTEP_ASSERT(!stages.empty());
  // If a gradient is the output's gradient itself, it belongs to the first stage.
  for (const auto& gradient : facts.gradients) {
    LOCKSTEP_ASSERT(gradient.parameter < facts.parameters.size());
    const auto by = given_by.find(gradient.value);
    stages[by == given_by.end() ? 0 : by->second].gradients.push_back(gradient);
  }
  for (const auto& [value, number] : last_use) stages[number].ends.push_back(value);
}

std::vector<at::Tensor> CompiledPass::Impl::found(const torch::OrderedDict<std::string, at::Tensor>& there,
                                                  const std::vector<Input>& wanted) const {
  std::vector<at::Tensor> tensors;
  for (const auto& each : wanted) {
    const auto* tensor = there.find(each.name);
    if (tensor != nullptr && each.has_shape_of(*tensor)) {
      tensors.push_back(*tensor);
      continue;
    }
    throw Error(
        ErrorKind::kData,
        "'" + file + "' was compiled for '" + each.name + "' " + each.text() + ", this network has " +
            (tensor == nullptr ? "none" : dtype_name(tensor->scalar_type()) + " " + shape_text(tensor->sizes())),
        kCompile);
  }
  // A tied weight has several names in C++, but only one in Python.
  const auto count = [](const std::vector<at::Tensor>& all) {
    std::set<const void*> distinct;
    for (const auto& each : all) distinct.insert(each.unsafeGetTensorImpl());
    return distinct.size();
  };
  if (count(tensors) == count(there.values())) return tensors;
  throw Error(ErrorKind::kData,
              "'" + file + "' was compiled for " + std::to_string(count(tensors)) + " tensors of a network that has " +
                  std::to_string(count(there.values())),
              kCompile);
}

// The compiled code does not check its inputs, so this does.
void CompiledPass::Impl::require_circumstances(const at::Tensor& batch) {
  const auto type = batch.device().type();
  const auto refuse = [this](const std::string& what, const std::string& wanted, const std::string& is) {
    throw Error(ErrorKind::kRecipe, "'" + file + "' was compiled for " + what + " " + wanted + ", this run has " + is,
                std::string(kCompile) + ", or leave model.compiled out");
  };
  const auto device = c10::DeviceTypeName(type, /*lower_case=*/true);
  if (device != facts.device) refuse("device", facts.device, device);
  const bool is_narrow = at::autocast::is_autocast_enabled(type);
  const auto arithmetic = is_narrow                            ? at::autocast::get_autocast_dtype(type)
                          : batch.scalar_type() == at::kDouble ? at::kDouble
                                                               : at::kFloat;
  const auto precision = precision_of(arithmetic);
  if (precision != facts.precision) refuse("precision", facts.precision, precision);
  const auto require_layout = [&](const Input& input, const at::Tensor& tensor, const std::string& what) {
    if (!input.is_laid_out_as(tensor))
      refuse(what + " with strides", shape_text(input.stride), shape_text(tensor.strides()));
  };
  require_layout(facts.batch, batch, "batches");
  for (std::size_t i = 0; i < parameters.size() && !is_checked; ++i) {
    require_layout(facts.parameters[i], parameters[i], "'" + facts.parameters[i].name + "'");
  }
  is_checked = true;
}

void CompiledPass::Impl::set_buffers(const std::vector<at::Tensor>& values) {
  // One call converts all tensors of one type.
  std::map<at::ScalarType, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> by_type;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto& [to, from] = by_type[buffers[i].scalar_type()];
    to.push_back(buffers[i]);
    from.push_back(values[i]);
  }
  for (auto& [type, pair] : by_type) at::_foreach_copy_(pair.first, pair.second);
}

c10::intrusive_ptr<Values> CompiledPass::Impl::forward_values(const at::Tensor& batch) {
  const torch::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard casts_itself(c10::autocast_dispatch_keyset);
  auto all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  all.push_back(batch);
  auto made = forward->run(all);
  const auto saved = made.begin() + 1 + std::ssize(buffers);
  set_buffers({made.begin() + 1, saved});
  auto values = c10::make_intrusive<Values>();
  values->pass = this;
  values->output = made.front();
  values->all.assign(saved, made.end());
  for (const auto& each : values->all) values->versions.push_back(static_cast<std::uint32_t>(each._version()));
  return values;
}

// Autograd may pass a gradient with other strides, or an expanded number.
void CompiledPass::Impl::add_tangent(Values& values, const at::Tensor& tangent) const {
  if (values.all.size() != values.versions.size()) {
    throw Error(ErrorKind::kUsage, "a compiled backward pass runs a second time", "make another forward pass first");
  }
  for (std::size_t i = 0; i < values.versions.size(); ++i) {
    if (values.all[i]._version() == values.versions[i]) continue;
    throw Error(ErrorKind::kUsage,
                "a tensor of " + shape_text(values.all[i].sizes()) + " that backward needs was changed",
                "change weights and outputs in place after backward() alone");
  }
  if (facts.tangent.is_laid_out_as(tangent)) {
    values.all.push_back(tangent);
    return;
  }
  auto laid_out = at::empty_strided(facts.tangent.shape, facts.tangent.stride, tangent.options());
  values.all.push_back(laid_out.copy_(tangent));
}

// Returns the gradients that the stage computes, in the order of its parameters.
std::vector<at::Tensor> CompiledPass::Impl::run_stage(Values& values, std::size_t number) const {
  const auto& stage = stages[number];
  std::vector<at::Tensor> taken;
  for (const auto each : stage.values.takes) taken.push_back(values.all.at(each));
  const c10::impl::ExcludeDispatchKeyGuard casts_itself(c10::autocast_dispatch_keyset);
  const auto given = stage.package->run(taken);
  LOCKSTEP_ASSERT(given.size() == stage.values.gives.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (stage.values.gives[i] >= values.all.size()) values.all.resize(stage.values.gives[i] + 1);
    values.all[stage.values.gives[i]] = given[i];
  }
  std::vector<at::Tensor> gradients;
  for (const auto& each : stage.gradients) gradients.push_back(values.all.at(each.value));
  for (const auto each : stage.ends) values.all[each].reset();
  return gradients;
}

void require_loadable(const std::filesystem::path& file) {
  const auto forward = opened(file, "forward");
  const auto facts = facts_of(*forward, file.string());
  for (std::size_t number = 0; number < facts.stages.size(); ++number) opened(file, name_of_stage(number));
}

CompiledPass::CompiledPass(const std::filesystem::path& file, const Network& network)
    : impl_(std::make_unique<Impl>(file, network)) {}

CompiledPass::~CompiledPass() = default;

bool CompiledPass::takes(const at::Tensor& batch) const { return impl_->facts.batch.has_shape_of(batch); }

std::string CompiledPass::batch_text() const { return impl_->facts.batch.text(); }

std::size_t CompiledPass::stages() const { return impl_->stages.size(); }

at::Tensor CompiledPass::run(const at::Tensor& batch) {
  impl_->require_circumstances(batch);
  const auto values = impl_->forward_values(batch);
  at::Tensor token;
  for (auto number = impl_->stages.size(); number-- > 0;) {
    std::vector<at::Tensor> inputs;
    for (const auto& each : impl_->stages[number].gradients) inputs.push_back(impl_->parameters[each.parameter]);
    if (token.defined()) inputs.push_back(token);
    token = StageNode::apply(values, number, at::TensorList(inputs));
  }
  return token;
}

}  // namespace lockstep
