// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/resnet.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/device/dtype.h"
#include "lockstep/models/batch_norm.h"

namespace lockstep {
namespace {

constexpr std::int64_t kFirstWidth = 64;

struct Depth {
  const char* name;
  bool is_bottleneck;
  std::array<int, 4> blocks;

  std::int64_t expansion() const { return is_bottleneck ? 4 : 1; }
};
constexpr std::array<Depth, 5> kDepths = {{{"resnet18", false, {2, 2, 2, 2}},
                                           {"resnet34", false, {3, 4, 6, 3}},
                                           {"resnet50", true, {3, 4, 6, 3}},
                                           {"resnet101", true, {3, 4, 23, 3}},
                                           {"resnet152", true, {3, 8, 36, 3}}}};

struct Convolution {
  std::int64_t from;
  std::int64_t to;
  std::int64_t kernel;
  std::int64_t stride = 1;

  torch::nn::Conv2d make() const {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
  }
};

// `downsample` converts a block's input to the shape of the block's output.
struct Projection : torch::nn::Module {
  explicit Projection(const Convolution& convolution)
      : conv(register_module("0", convolution.make())),
        norm(register_module("1", std::make_shared<BatchNorm>(convolution.to))) {}

  at::Tensor forward(const at::Tensor& input) { return norm->forward(conv->forward(input)); }

  torch::nn::Conv2d conv;
  std::shared_ptr<BatchNorm> norm;
};

struct Block : torch::nn::Module {
  Block(std::int64_t from, std::int64_t width, std::int64_t stride, const Depth& depth) {
    const auto to = width * depth.expansion();
    // The layer is made first and registered last, as in torchvision, so that the same seed gives the same weights.
    if (stride != 1 || from != to) downsample = std::make_shared<Projection>(Convolution{from, to, 1, stride});
    if (depth.is_bottleneck) {
      add({from, width, 1});
      add({width, width, 3, stride});
      add({width, to, 1});
    } else {
      add({from, width, 3, stride});
      add({width, width, 3});
    }
    if (downsample) register_module("downsample", downsample);
  }

  void add(const Convolution& convolution) {
    const auto number = std::to_string(convs.size() + 1);
    convs.push_back(register_module("conv" + number, convolution.make()));
    norms.push_back(register_module("bn" + number, std::make_shared<BatchNorm>(convolution.to)));
  }

  at::Tensor forward(const at::Tensor& input) {
    auto x = input;
    for (std::size_t i = 0; i < convs.size(); ++i) {
      if (i != 0) x = x.relu_();
      x = norms[i]->forward(convs[i]->forward(x));
    }
    return x.add_(downsample ? downsample->forward(input) : input).relu_();
  }

  std::vector<torch::nn::Conv2d> convs;
  std::vector<std::shared_ptr<BatchNorm>> norms;
  std::shared_ptr<Projection> downsample;
};

struct Stage : torch::nn::Module {
  Stage(std::int64_t from, std::int64_t width, int count, const Depth& depth) {
    for (int i = 0; i < count; ++i) {
      const std::int64_t stride = i == 0 && width != kFirstWidth ? 2 : 1;
      blocks.push_back(register_module(std::to_string(i), std::make_shared<Block>(from, width, stride, depth)));
      from = width * depth.expansion();
    }
  }

  at::Tensor forward(at::Tensor x) {
    for (const auto& block : blocks) x = block->forward(x);
    return x;
  }

  std::vector<std::shared_ptr<Block>> blocks;
};

struct ResNet : Network {
  ResNet(const NetworkOptions& options, const Depth& depth)
      : is_small(options.resnet.stem == "cifar"),
        conv1(register_module("conv1", (is_small ? Convolution{options.input_shape[0], kFirstWidth, 3}
                                                 : Convolution{options.input_shape[0], kFirstWidth, 7, 2})
                                           .make())),
        bn1(register_module("bn1", std::make_shared<BatchNorm>(kFirstWidth))) {
    std::int64_t from = kFirstWidth, width = kFirstWidth;
    for (std::size_t i = 0; i < depth.blocks.size(); ++i, width *= 2) {
      stages.push_back(register_module("layer" + std::to_string(i + 1),
                                       std::make_shared<Stage>(from, width, depth.blocks[i], depth)));
      from = width * depth.expansion();
    }
    fc = register_module("fc", torch::nn::Linear(from, options.classes));
    for (const auto& each : modules(/*include_self=*/false)) {
      if (const auto* conv = each->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
    if (options.resnet.zero_init_residual) start_as_identity();
  }

  void start_as_identity() {
    for (const auto& stage : stages) {
      for (const auto& block : stage->blocks) {
        torch::nn::init::zeros_(block->norms.back()->named_parameters()["weight"]);
      }
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = bn1->forward(conv1->forward(input)).relu_();
    if (!is_small) x = at::max_pool2d(x, 3, 2, 1);
    for (const auto& stage : stages) x = stage->forward(x);
    return fc->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  bool is_small;
  torch::nn::Conv2d conv1;
  std::shared_ptr<BatchNorm> bn1;
  std::vector<std::shared_ptr<Stage>> stages;
  torch::nn::Linear fc = nullptr;
};

}  // namespace

std::shared_ptr<Network> make_resnet(const NetworkOptions& options) {
  const auto depth =
      std::find_if(kDepths.begin(), kDepths.end(), [&](const auto& each) { return options.name == each.name; });
  LOCKSTEP_ASSERT(depth != kDepths.end());
  if (options.input_shape.size() != 3) {
    throw Error(ErrorKind::kData,
                "the samples are " + shape_text(options.input_shape) + ", the model " + options.name +
                    " wants [channels, height, width]",
                "choose model.name = \"mlp\", or a data set of images");
  }
  const auto& stem = options.resnet.stem;
  if (stem != "imagenet" && stem != "cifar") {
    throw Error(ErrorKind::kRecipe, "model.stem is '" + stem + "', want imagenet or cifar",
                "cifar keeps images of 32 x 32 whole at the start, imagenet quarters them");
  }
  return std::make_shared<ResNet>(options, *depth);
}

}  // namespace lockstep
