// SPDX-License-Identifier: Apache-2.0
// A training in which one rank has a fault at one step:
//
//     lockstep launch -n 4 -- faulty_training RUN_DIR FAULT RANK STEP
//
// throw: an exception in forward. skip: a collective of the model's is left out. shape: the same collective with
// another size. load: samples that never come, whose ids go to RUN_DIR/stuck-samples. compute: a loop without end.
// none: nothing, for faults from outside.
#include <torch/torch.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "lockstep/lockstep.h"

namespace {

struct Fault {
  std::string folder;
  std::string kind;
  int rank = 0;
  std::int64_t step = 0;
  bool is_here = false;  ///< This rank has it.

  bool is(const char* what, std::int64_t now) const { return is_here && kind == what && now >= step; }
};

__attribute__((noinline)) void spin() {
  for (int i = 0; i < 1000; ++i) asm volatile("" ::: "memory");
}

struct Net : lockstep::Module {
  Net(const Fault& fault_, lockstep::Group& group_) : fault(fault_), group(group_) {
    torch::manual_seed(1);
    net = register_module("net", torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(64, 64),
                                                       torch::nn::ReLU(), torch::nn::Linear(64, 4)));
  }

  at::Tensor training_step(const lockstep::Batch& batch) override {
    if (fault.is("throw", step)) throw std::runtime_error("a fault of the model");
    while (fault.is("compute", step)) spin();
    // A collective of the model's own, as a metric over all ranks would be.
    auto seen = torch::full({fault.is("shape", step) ? 12 : 4}, 1.0);
    if (!fault.is("skip", step)) group.all_reduce_sum(seen);
    ++step;
    return torch::nn::functional::cross_entropy(net->forward(batch.input().to(at::kFloat)), batch.target());
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return std::make_unique<torch::optim::SGD>(parameters(), 1e-3);
  }

  const Fault& fault;
  lockstep::Group& group;
  torch::nn::Sequential net;
  std::int64_t step = 0;
};

/// Samples of which one never comes, once so many were read here.
struct Source : lockstep::SampleSource {
  explicit Source(const Fault& fault_) : fault(fault_) {}

  std::int64_t size() const override { return inner->size(); }
  const std::vector<lockstep::Field>& fields() const override { return inner->fields(); }
  std::string name_of(std::int64_t id) const override { return inner->name_of(id); }
  void read(const lockstep::SampleKey& key, std::span<std::byte* const> to) const override {
    constexpr std::int64_t kEachStep = 10;
    if (fault.is("load", reads++ / kEachStep)) {
      // Several threads read, and each of them comes to a sample of its own. One write adds a whole line.
      std::ofstream(fault.folder + "/stuck-samples", std::ios::app) << std::to_string(key.id) + "\n" << std::flush;
      while (true) std::this_thread::sleep_for(std::chrono::hours(1));
    }
    inner->read(key, to);
  }

  const Fault& fault;
  std::shared_ptr<lockstep::SampleSource> inner =
      lockstep::synthetic_source({.samples = 4000, .classes = 4, .shape = {8, 8}});
  mutable std::atomic<std::int64_t> reads = 0;
};

struct Data : lockstep::DataModule {
  explicit Data(const Fault& fault) : source(std::make_shared<Source>(fault)) {}

  std::unique_ptr<lockstep::Loader> train_loader(lockstep::Shard shard) override {
    return std::make_unique<lockstep::Loader>(source, lockstep::LoaderOptions{.global_batch = 40, .shard = shard});
  }

  std::shared_ptr<Source> source;
};

void run(Fault fault) {
  torch::set_num_threads(1);
  auto world = lockstep::join({.collective_timeout = std::chrono::seconds(60)});
  fault.is_here = world.rank() == fault.rank;
  Net net(fault, world);
  Data data(fault);
  lockstep::TrainerOptions options{.max_epochs = 100'000};
  options.snapshot.folder = fault.folder + "/snapshots";
  options.snapshot.every_epochs = 0;
  options.snapshot.every_steps = 50;
  lockstep::Trainer trainer(options);
  trainer.fit(net, data, world);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    run({.folder = argv[1], .kind = argv[2], .rank = std::stoi(argv[3]), .step = std::stoll(argv[4])});
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
