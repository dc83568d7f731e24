// SPDX-License-Identifier: Apache-2.0
// A training loop of your own in LibTorch, made data-parallel. The new lines are marked "Lockstep".
//   lockstep launch -n 2 -- 01_mnist_own_loop FOLDER        (or srun, torchrun, mpirun; or alone)
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

#include "lockstep/lockstep.h"

namespace {

constexpr std::int64_t kGlobalBatch = 50;
constexpr int kEpochs = 5;

at::Tensor tensor_of(const std::string& path) {
  auto array = lockstep::read_idx(path);
  return at::from_blob(array.bytes.data(), array.shape, at::kByte).clone();
}

struct Digits {
  at::Tensor images;  ///< [N, pixels], 0 to 1.
  at::Tensor labels;

  Digits(const std::string& folder, const std::string& split)
      : images(tensor_of(folder + "/" + split + "-images-idx3-ubyte.gz").to(at::kFloat).flatten(1)),
        labels(tensor_of(folder + "/" + split + "-labels-idx1-ubyte.gz").to(at::kLong)) {
    images /= images.max();
  }
};

void run(const std::string& folder) {
  auto world = lockstep::join();  // Lockstep: one line to meet the other ranks.
  const Digits train(folder, "train");
  const Digits test(folder, "t10k");

  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(train.images.size(1), 64), torch::nn::ReLU(), torch::nn::Linear(64, 10));
  lockstep::DistributedDataParallel ddp(*net, world);  // Lockstep: the same weights everywhere.
  torch::optim::Adam optimizer(net->parameters(), 3e-3);
  lockstep::DistributedSampler sampler(  // Lockstep: this rank's share of each batch.
      train.labels.size(0), {.global_batch = kGlobalBatch, .shard = {world.rank(), world.world()}, .seed = 1});

  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    while (const auto part = sampler.next()) {
      const auto rows = at::tensor(part->indices, at::kLong);
      optimizer.zero_grad();
      at::Tensor loss;  // A rank whose share is empty has none.
      if (rows.numel() > 0) {
        loss = torch::nn::functional::cross_entropy(net->forward(train.images.index_select(0, rows)),
                                                    train.labels.index_select(0, rows));
      }
      ddp.backward(loss, rows.numel());  // Lockstep: in place of loss.backward().
      optimizer.step();
    }
    if (!world.is_main()) continue;
    const torch::NoGradGuard no_grad;
    const auto right = net->forward(test.images).argmax(1).eq(test.labels).to(at::kDouble).mean();
    std::printf("epoch %d: accuracy %.4f on %d ranks\n", epoch + 1, right.item<double>(), world.world());
  }
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
