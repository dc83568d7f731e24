// SPDX-License-Identifier: Apache-2.0
// Trains on arrays in an HDF5 file, which any program may have written: 'x' [N, features], floating, and 'y' [N],
// classes from 0.
//   python make_data.py data.h5 && lockstep launch -n 2 -- 04_hdf5 data.h5
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

#include "lockstep/lockstep.h"

namespace {

struct Arrays : lockstep::DataModule {
  // A fifth of the rows is held out for validation. The seed determines which.
  explicit Arrays(const std::string& file)
      : sets(lockstep::open_data_sets({.kind = "hdf5", .path = file, .split = 0.2, .seed = 1})) {}

  std::unique_ptr<lockstep::Loader> train_loader(lockstep::Shard shard) override {
    return std::make_unique<lockstep::Loader>(sets.train, lockstep::LoaderOptions{.global_batch = 50, .shard = shard});
  }
  std::unique_ptr<lockstep::Loader> validation_loader(lockstep::Shard shard) override {
    return std::make_unique<lockstep::Loader>(
        sets.validation, lockstep::LoaderOptions{.global_batch = 200, .shard = shard, .shuffle = false});
  }

  lockstep::DataSets sets;
};

void run(const std::string& file) {
  auto world = lockstep::join();
  Arrays arrays(file);
  torch::manual_seed(1);
  const auto& train = *arrays.sets.train;
  const lockstep::NetworkOptions network{
      .name = "mlp", .input_shape = train.fields().at(0).shape, .classes = train.classes(), .hidden = {32}};
  lockstep::Classifier classifier(lockstep::make_network(network), network.classes,
                                  {.optimizer = {.name = "adam", .lr = 1e-2}});
  const auto result = lockstep::Trainer({.max_epochs = 10}).fit(classifier, arrays, world);
  if (!world.is_main()) return;
  std::printf("%lld rows to train on: accuracy %.4f on the rest\n", static_cast<long long>(train.size()),
              result.state.metrics.at("val_accuracy"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "data.h5");
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
