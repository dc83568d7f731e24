// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/network.h"

#include <torch/torch.h>

#include <array>
#include <numeric>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/device/dtype.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/resnet.h"
#include "lockstep/models/vit.h"

namespace lockstep {
namespace {

// A network of linear layers fc1, fc2, … with ReLU between them.
struct Mlp : Network {
  explicit Mlp(const NetworkOptions& options) {
    std::int64_t width =
        std::accumulate(options.input_shape.begin(), options.input_shape.end(), std::int64_t{1}, std::multiplies<>());
    auto widths = options.hidden;
    widths.push_back(options.classes);
    for (const auto next : widths) {
      layers.push_back(register_module("fc" + std::to_string(layers.size() + 1), torch::nn::Linear(width, next)));
      width = next;
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = input.flatten(1);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i != 0) x = torch::relu(x);
      x = layers[i]->forward(x);
    }
    return x;
  }

  std::vector<torch::nn::Linear> layers;
};

// A network of two convolutions with pooling and two linear layers. The convolutions have 3×3 kernels, and 16 and 32
// channels.
struct Cnn : Network {
  explicit Cnn(const NetworkOptions& options) {
    const auto& shape = options.input_shape;
    if (shape.size() != 3 || shape[1] < 4 || shape[2] < 4) {
      throw Error(ErrorKind::kData,
                  "the samples are " + shape_text(shape) + ", the model cnn wants [channels, >= 4, >= 4]",
                  "choose model.name = \"mlp\", or another data set");
    }
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape[0], 16, 3).padding(1)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
    fc1 = register_module("fc1", torch::nn::Linear(32 * (shape[1] / 4) * (shape[2] / 4), 128));
    fc2 = register_module("fc2", torch::nn::Linear(128, options.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = torch::max_pool2d(torch::relu(conv1->forward(input)), 2);
    x = torch::max_pool2d(torch::relu(conv2->forward(x)), 2);
    return fc2->forward(torch::relu(fc1->forward(x.flatten(1))));
  }

  torch::nn::Conv2d conv1 = nullptr;
  torch::nn::Conv2d conv2 = nullptr;
  torch::nn::Linear fc1 = nullptr;
  torch::nn::Linear fc2 = nullptr;
};

template <typename Made>
std::shared_ptr<Network> make(const NetworkOptions& options) {
  return std::make_shared<Made>(options);
}

struct Entry {
  const char* name;
  std::shared_ptr<Network> (*make)(const NetworkOptions&);
};
constexpr std::array<Entry, 9> kNetworks = {{{"mlp", make<Mlp>},
                                             {"cnn", make<Cnn>},
                                             {"resnet18", make_resnet},
                                             {"resnet34", make_resnet},
                                             {"resnet50", make_resnet},
                                             {"resnet101", make_resnet},
                                             {"resnet152", make_resnet},
                                             {"vit_b_16", make_vit},
                                             {"bert", make_bert}}};

}  // namespace

std::string Network::why_not_recorded() const {
  return "the model is not one of Lockstep's own, so what it asks of the host is unknown";
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const auto& each : kNetworks) names.emplace_back(each.name);
  return names;
}

std::shared_ptr<Network> make_network(const NetworkOptions& options) {
  if (options.classes < 1) {
    throw Error(ErrorKind::kData, "the data set has no classes, the model " + options.name + " wants at least one",
                "choose a data set with labels");
  }
  for (const auto& each : kNetworks) {
    if (options.name == each.name) return each.make(options);
  }
  const auto near = nearest_name(options.name, network_names());
  throw Error(ErrorKind::kRecipe, "model.name is '" + options.name + "', want one of " + joined(network_names(), ", "),
              near ? "did you mean '" + *near + "'?" : "");
}

void adopt(torch::nn::Module& to, const torch::nn::Module& from) {
  for (const auto& own : from.named_parameters(/*recurse=*/false)) {
    to.register_parameter(own.key(), own.value(), own.value().requires_grad());
  }
  for (const auto& own : from.named_buffers(/*recurse=*/false)) to.register_buffer(own.key(), own.value());
  for (const auto& child : from.named_children()) to.register_module(child.key(), child.value());
}

void convert_floating(torch::nn::Module& module, at::ScalarType type) {
  const auto convert = [type](auto named) {
    for (auto& item : named) {
      if (item.value().is_floating_point()) item.value().set_data(item.value().to(type));
    }
  };
  convert(module.named_parameters());
  convert(module.named_buffers());
}

void lay_channels_last(torch::nn::Module& module) {
  for (auto& each : module.parameters()) {
    if (each.dim() == 4) each.set_data(each.contiguous(at::MemoryFormat::ChannelsLast));
  }
}

std::int64_t parameter_count(const torch::nn::Module& module) {
  std::unordered_set<const void*> seen;
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) {
    if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second) count += parameter.numel();
  }
  return count;
}

}  // namespace lockstep
