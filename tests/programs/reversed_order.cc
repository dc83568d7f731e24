// SPDX-License-Identifier: Apache-2.0
// Trains a network whose layers are registered in the reverse of the order in which they run, so that the buckets of
// the first step are not those of later ones. The program resumes from the newest snapshot in its folder.
//   reversed_order FOLDER [--epochs N] [--die-rank R --die-step S]
// With the last two, rank R kills itself with SIGKILL right after step S. Rank 0 prints one JSON object.
#include <torch/torch.h>

#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"
#include "lockstep/comm/join.h"
#include "lockstep/data/source/synthetic_source.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"

namespace {

using namespace lockstep;  // A program, not a header.

struct Reversed : Module {
  Reversed() {
    torch::manual_seed(7);
    last = register_module("last", torch::nn::Linear(64, 3));
    middle = register_module("middle", torch::nn::Linear(96, 64));
    first = register_module("first", torch::nn::Linear(32, 96));
  }

  at::Tensor training_step(const Batch& batch) override {
    const auto hidden = torch::tanh(middle->forward(torch::tanh(first->forward(batch.input()))));
    return at::cross_entropy_loss(last->forward(torch::dropout(hidden, 0.1, is_training())), batch.target());
  }

  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return std::make_unique<FusedSGD>(parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  }

  torch::nn::Linear last = nullptr, middle = nullptr, first = nullptr;
};

struct Data : DataModule {
  std::unique_ptr<Loader> train_loader(Shard shard) override {
    std::shared_ptr<const SampleSource> source =
        synthetic_source({.samples = 203, .classes = 3, .shape = {32}, .seed = 5});
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = 20, .shard = shard, .seed = 5});
  }
};

struct DieAfter : Listener {
  explicit DieAfter(std::int64_t last) : step(last) {}
  std::string name() const override { return "die_after"; }
  Verdict on(const StepEnded& event) override {
    if (event.step == step) std::raise(SIGKILL);
    return Verdict::kContinue;
  }
  std::int64_t step;
};

std::int64_t option(int argc, char** argv, std::string_view name, std::int64_t otherwise) {
  for (int i = 2; i + 1 < argc; ++i) {
    if (argv[i] == name) return parsed_int<std::int64_t>(argv[i + 1]).value_or(otherwise);
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw Error(ErrorKind::kUsage, "no folder was given", "reversed_order FOLDER [--epochs N]");
    at::set_num_threads(1);
    auto world = join();
    const std::filesystem::path snapshots = std::filesystem::path(argv[1]) / "snapshots";
    TrainerOptions options{.max_epochs = option(argc, argv, "--epochs", 4), .log_every = 0};
    // The buckets are small, so that there are several.
    options.step.parallel.bucket_mib = 0.008;
    options.snapshot = {.folder = snapshots, .every_steps = 3, .keep = 0};
    const auto newest = newest_whole_snapshot(snapshots, [](const auto&, const auto&) {});
    const auto from = world.broadcast_text(newest ? newest->path.string() : "");
    if (!from.empty()) options.snapshot.resume_from = from;
    Reversed model;
    Data data;
    Trainer trainer(options);
    DieAfter die(option(argc, argv, "--die-step", 0));
    if (option(argc, argv, "--die-rank", -1) == world.rank()) trainer.add(die);
    const auto result = trainer.fit(model, data, world);
    if (world.is_main()) {
      std::cout << nlohmann::json{{"weights_digest", result.weights_digest},
                                  {"sample_digest", result.state.digest.hex()},
                                  {"steps", result.state.step},
                                  {"steps_now", result.steps_now},
                                  {"samples", result.state.samples}}
                << std::endl;
    }
    return result.wants_requeue ? kExitStopped : 0;
  } catch (const Error& error) {
    std::cerr << error.what() << std::endl;
    return exit_code(error.kind());
  }
}
