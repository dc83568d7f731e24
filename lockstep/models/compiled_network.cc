// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/compiled_network.h"

#include <ATen/autocast_mode.h>
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

/// The facts that compile_model.py records.
struct Facts {
  std::string torch;
  std::string device;     ///< "cpu", "cuda"
  std::string precision;  ///< "fp32", "bf16", "fp16", "fp64"
  std::vector<Input> parameters;
  std::vector<Input> buffers;
  Input batch;
  Input tangent;                       ///< The gradient of the output.
  std::vector<std::size_t> gradients;  ///< Places among the parameters, in the order in which backward gives them.
};

void from_json(const nlohmann::json& json, Facts& facts) {
  json.at("torch").get_to(facts.torch);
  json.at("device").get_to(facts.device);
  json.at("precision").get_to(facts.precision);
  json.at("parameters").get_to(facts.parameters);
  json.at("buffers").get_to(facts.buffers);
  json.at("batch").get_to(facts.batch);
  json.at("tangent").get_to(facts.tangent);
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

/// The compiled forward and backward pass of one network on batches of one shape.
class CompiledPass {
 public:
  CompiledPass(const std::filesystem::path& file, const Network& network)
      : file_(file.string()), forward_(opened(file, "forward")), backward_(opened(file, "backward")) {
    const auto said = forward_->get_metadata();
    try {
      nlohmann::json::parse(said.at("lockstep")).get_to(facts_);
    } catch (const std::exception&) {
      throw Error(ErrorKind::kData, "'" + file_ + "' does not say which network it was compiled from", kCompile);
    }
    const std::string_view built = TORCH_VERSION;
    if (facts_.torch != built) {
      throw Error(ErrorKind::kEnvironment,
                  "'" + file_ + "' was compiled with PyTorch " + facts_.torch + ", this is " + std::string(built),
                  kCompile);
    }
    parameters_ = found(network.named_parameters(), facts_.parameters);
    buffers_ = found(network.named_buffers(), facts_.buffers);
  }

  bool takes(const at::Tensor& batch) const { return facts_.batch.has_shape_of(batch); }
  std::string batch_text() const { return facts_.batch.text(); }

  at::Tensor run(const at::Tensor& batch) {
    require_circumstances(batch);
    auto inputs = parameters_;
    inputs.push_back(batch);
    return Differentiable::apply(this, at::TensorList(inputs));
  }

 private:
  struct Differentiable : torch::autograd::Function<Differentiable> {
    static at::Tensor forward(torch::autograd::AutogradContext* ctx, CompiledPass* pass, at::TensorList inputs) {
      ctx->saved_data["pass"] = reinterpret_cast<std::int64_t>(pass);
      std::vector<at::Tensor> all(inputs.begin(), inputs.end() - 1);
      all.insert(all.end(), pass->buffers_.begin(), pass->buffers_.end());
      all.push_back(inputs.back());
      const c10::impl::ExcludeDispatchKeyGuard casts_itself(c10::autocast_dispatch_keyset);
      auto made = pass->forward_->run(all);
      pass->set_buffers({made.begin() + 1, made.begin() + 1 + std::ssize(pass->buffers_)});
      ctx->save_for_backward({made.begin() + 1 + std::ssize(pass->buffers_), made.end()});
      return made.front();
    }

    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                   torch::autograd::variable_list tangents) {
      auto* pass = reinterpret_cast<CompiledPass*>(ctx->saved_data["pass"].toInt());
      auto inputs = ctx->get_saved_variables();
      inputs.push_back(pass->as_compiled_for(tangents.front()));
      const c10::impl::ExcludeDispatchKeyGuard casts_itself(c10::autocast_dispatch_keyset);
      const auto made = pass->backward_->run(inputs);
      // The inputs are those of the pass itself, each parameter, and the batch.
      torch::autograd::variable_list gradients(1 + pass->parameters_.size() + 1);
      for (std::size_t i = 0; i < made.size(); ++i) gradients[1 + pass->facts_.gradients.at(i)] = made[i];
      return gradients;
    }
  };

  std::vector<at::Tensor> found(const torch::OrderedDict<std::string, at::Tensor>& there,
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
          "'" + file_ + "' was compiled for '" + each.name + "' " + each.text() + ", this network has " +
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
                "'" + file_ + "' was compiled for " + std::to_string(count(tensors)) +
                    " tensors of a network that has " + std::to_string(count(there.values())),
                kCompile);
  }

  // The compiled code does not check its inputs, so this does.
  void require_circumstances(const at::Tensor& batch) {
    const auto type = batch.device().type();
    const auto refuse = [this](const std::string& what, const std::string& wanted, const std::string& is) {
      throw Error(ErrorKind::kRecipe,
                  "'" + file_ + "' was compiled for " + what + " " + wanted + ", this run has " + is,
                  std::string(kCompile) + ", or leave model.compiled out");
    };
    const auto device = c10::DeviceTypeName(type, /*lower_case=*/true);
    if (device != facts_.device) refuse("device", facts_.device, device);
    const bool is_narrow = at::autocast::is_autocast_enabled(type);
    const auto arithmetic = is_narrow                            ? at::autocast::get_autocast_dtype(type)
                            : batch.scalar_type() == at::kDouble ? at::kDouble
                                                                 : at::kFloat;
    const auto precision = precision_of(arithmetic);
    if (precision != facts_.precision) refuse("precision", facts_.precision, precision);
    const auto require_layout = [&](const Input& input, const at::Tensor& tensor, const std::string& what) {
      if (!input.is_laid_out_as(tensor))
        refuse(what + " with strides", shape_text(input.stride), shape_text(tensor.strides()));
    };
    require_layout(facts_.batch, batch, "batches");
    for (std::size_t i = 0; i < parameters_.size() && !is_checked_; ++i) {
      require_layout(facts_.parameters[i], parameters_[i], "'" + facts_.parameters[i].name + "'");
    }
    is_checked_ = true;
  }

  static std::string precision_of(at::ScalarType type) {
    return type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : type == at::kDouble ? "fp64" : "fp32";
  }

  // Autograd may pass a gradient with other strides, or an expanded number.
  at::Tensor as_compiled_for(const at::Tensor& tangent) const {
    if (facts_.tangent.is_laid_out_as(tangent)) return tangent;
    auto laid_out = at::empty_strided(facts_.tangent.shape, facts_.tangent.stride, tangent.options());
    return laid_out.copy_(tangent);
  }

  void set_buffers(const std::vector<at::Tensor>& values) {
    // One call converts all tensors of one type.
    std::map<at::ScalarType, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> by_type;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto& [to, from] = by_type[buffers_[i].scalar_type()];
      to.push_back(buffers_[i]);
      from.push_back(values[i]);
    }
    for (auto& [type, pair] : by_type) at::_foreach_copy_(pair.first, pair.second);
  }

  std::string file_;
  Facts facts_;
  std::unique_ptr<Package> forward_;
  std::unique_ptr<Package> backward_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  bool is_checked_ = false;
};

class CompiledNetwork final : public Network {
 public:
  CompiledNetwork(std::filesystem::path file, std::shared_ptr<Network> plain)
      : file_(std::move(file)), plain_(std::move(plain)) {
    adopt(*this, *plain_);
  }

  at::Tensor forward(const at::Tensor& input) override {
    if (!is_training() || !at::GradMode::is_enabled()) return plain_->forward(input);
    if (!pass_) pass_ = std::make_unique<CompiledPass>(file_, *plain_);
    if (pass_->takes(input)) {
      others_in_row_ = 0;
      return pass_->run(input);
    }
    if (++others_in_row_ > kMostOthers) refuse(input);
    return plain_->forward(input);
  }

  /// Full batches run through the compiled passes, which need nothing from the host.
  std::string why_not_recorded() const override { return {}; }

  void train(bool on) override {
    Network::train(on);
    plain_->train(on);
  }

 private:
  // Batches of other sizes are the last one of an epoch, and those that are tried after memory ran out.
  static constexpr int kMostOthers = 4;

  [[noreturn]] void refuse(const at::Tensor& input) const {
    throw Error(ErrorKind::kRecipe,
                "'" + file_.string() + "' was compiled for batches of " + pass_->batch_text() + ", this rank's are " +
                    dtype_name(input.scalar_type()) + " " + shape_text(input.sizes()),
                std::string(kCompile) + " --batch " + std::to_string(input.size(0)));
  }

  std::filesystem::path file_;
  int others_in_row_ = 0;
  std::shared_ptr<Network> plain_;
  std::unique_ptr<CompiledPass> pass_;  ///< Once the first batch is trained.
};

}  // namespace

std::shared_ptr<Network> make_compiled_network(const std::filesystem::path& file, std::shared_ptr<Network> plain) {
  if (!std::filesystem::exists(file)) {
    throw Error(ErrorKind::kIo, "model.compiled: there is no file '" + file.string() + "'", kCompile);
  }
  return std::make_shared<CompiledNetwork>(file, std::move(plain));
}

}  // namespace lockstep
