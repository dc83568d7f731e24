// SPDX-License-Identifier: Apache-2.0
// The training of example 01 as a Module and a DataModule. The Trainer has the loop, the ranks, validation and
// snapshots.
//   lockstep launch -n 2 -- 02_mnist_module FOLDER
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

#include "lockstep/lockstep.h"

namespace {

struct Digits : lockstep::Module {
  explicit Digits(std::int64_t pixels) {
    torch::manual_seed(1);
    net = register_module("net", torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(pixels, 64),
                                                       torch::nn::ReLU(), torch::nn::Linear(64, 10)));
  }

  at::Tensor scores(const lockstep::Batch& batch) {
    return net->forward(batch.input().to(at::kFloat) / 16);  // Bytes from 0 to 16.
  }

  at::Tensor training_step(const lockstep::Batch& batch) override {
    return torch::nn::functional::cross_entropy(scores(batch), batch.target());
  }

  void validation_step(const lockstep::Batch& batch) override {
    const auto guesses = scores(batch);
    log("val_loss", torch::nn::functional::cross_entropy(guesses, batch.target()));
    log("val_accuracy", guesses.argmax(1).eq(batch.target()).to(at::kDouble).mean());
  }

  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return std::make_unique<torch::optim::Adam>(parameters(), 3e-3);
  }

  torch::nn::Sequential net;
};

struct Data : lockstep::DataModule {
  explicit Data(std::string from) : folder(std::move(from)) {}

  void setup() override {  // Once on every rank.
    train = lockstep::idx_folder_source(folder, "train");
    validation = lockstep::idx_folder_source(folder, "validation");
  }
  std::unique_ptr<lockstep::Loader> train_loader(lockstep::Shard shard) override {
    return std::make_unique<lockstep::Loader>(train,
                                              lockstep::LoaderOptions{.global_batch = 50, .shard = shard, .seed = 1});
  }
  std::unique_ptr<lockstep::Loader> validation_loader(lockstep::Shard shard) override {
    return std::make_unique<lockstep::Loader>(
        validation, lockstep::LoaderOptions{.global_batch = 360, .shard = shard, .shuffle = false});
  }

  std::string folder;
  std::shared_ptr<const lockstep::SampleSource> train, validation;
};

void run(const std::string& folder) {
  const auto pixels = lockstep::idx_folder_source(folder, "train")->fields().at(0).bytes();
  Digits digits(static_cast<std::int64_t>(pixels));
  Data data(folder);
  auto world = lockstep::join();
  lockstep::Trainer trainer({.max_epochs = 5});
  const auto result = trainer.fit(digits, data, world);
  if (!world.is_main()) return;
  std::printf("%lld steps on %d ranks, accuracy %.4f\n", static_cast<long long>(result.state.step), world.world(),
              result.state.metrics.at("val_accuracy"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "datasets/digits");
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
