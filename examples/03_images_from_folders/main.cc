// SPDX-License-Identifier: Apache-2.0
// Trains a network of your own on photographs. FOLDER has train/ and val/, each with a folder of JPEG or PNG files for
// each class.
//   lockstep launch -n 2 -- 03_images_from_folders FOLDER [EPOCHS]
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

#include "lockstep/lockstep.h"

namespace {

// Three convolutions, each halving the image.
struct Net : lockstep::Network {
  explicit Net(std::int64_t classes) {
    std::int64_t channels = 3;
    for (const std::int64_t next : {16, 32, 64}) {
      layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, next, 3).padding(1).stride(2)));
      layers->push_back(torch::nn::ReLU());
      channels = next;
    }
    register_module("layers", layers);
    head = register_module("head", torch::nn::Linear(channels, classes));
  }
  at::Tensor forward(const at::Tensor& images) override { return head->forward(layers->forward(images).mean({2, 3})); }

  torch::nn::Sequential layers;
  torch::nn::Linear head = nullptr;
};

struct Photographs : lockstep::DataModule {
  explicit Photographs(const std::string& folder)
      : sets(
            lockstep::open_data_sets({.kind = "folder",
                                      .path = folder,
                                      .transforms = {{"random_resized_crop(48)", "flip", "normalize(imagenet)"}},
                                      .eval_transforms = {{"resize(55)", "center_crop(48)", "normalize(imagenet)"}}})) {
    for (const auto& note : sets.notes) std::cerr << note << "\n";  // Files that are no images.
  }
  std::unique_ptr<lockstep::Loader> loader(lockstep::Shard shard, bool trains) const {
    return std::make_unique<lockstep::Loader>(
        trains ? sets.train : sets.validation,
        lockstep::LoaderOptions{.global_batch = trains ? 16 : 64, .shard = shard, .seed = 42, .shuffle = trains});
  }
  std::unique_ptr<lockstep::Loader> train_loader(lockstep::Shard shard) override { return loader(shard, true); }
  std::unique_ptr<lockstep::Loader> validation_loader(lockstep::Shard shard) override { return loader(shard, false); }

  lockstep::DataSets sets;
};

void run(const std::string& folder, std::int64_t epochs) {
  auto world = lockstep::join();
  Photographs photographs(folder);
  torch::manual_seed(42);
  const auto classes = photographs.sets.train->classes();
  lockstep::Classifier classifier(
      std::make_shared<Net>(classes), classes,
      {.optimizer = {.name = "adam", .lr = 1e-3}, .normalisation = photographs.sets.normalisation});
  const auto result = lockstep::Trainer({.max_epochs = epochs}).fit(classifier, photographs, world);
  if (!world.is_main()) return;
  std::printf("%lld photographs of %zu classes, %lld epochs: accuracy %.4f\n",
              static_cast<long long>(photographs.sets.train->size()), photographs.sets.class_names.size(),
              static_cast<long long>(epochs), result.state.metrics.at("val_accuracy"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: 03_images_from_folders FOLDER [EPOCHS]\n";
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::stoll(argv[2]) : 10);
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
