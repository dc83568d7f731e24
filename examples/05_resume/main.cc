// SPDX-License-Identifier: Apache-2.0
// Writes a snapshot after each epoch, and at once on SIGTERM, SIGINT or SIGUSR1. Started again, the run continues, and
// gives the same bits as without the interruption.
//   lockstep launch -n 2 -- 05_resume RUN_FOLDER [EPOCHS]
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

#include "lockstep/lockstep.h"

namespace {

struct Data : lockstep::DataModule {
  std::unique_ptr<lockstep::Loader> train_loader(lockstep::Shard shard) override {
    return std::make_unique<lockstep::Loader>(points, lockstep::LoaderOptions{.global_batch = 100, .shard = shard});
  }
  std::shared_ptr<const lockstep::SampleSource> points =
      lockstep::synthetic_source({.samples = 2000, .classes = 4, .shape = {8}, .seed = 1});
};

// Rank 0 decides for all ranks. On a shared file system the other ranks may see a file later.
std::optional<std::filesystem::path> newest(const std::filesystem::path& snapshots, lockstep::Group& world) {
  std::string found;
  lockstep::on_rank_zero(world, [&] {
    const auto entry = lockstep::newest_whole_snapshot(snapshots, [](const auto& damaged, const auto& reason) {
      std::cerr << "passed over " << damaged.path << ": " << reason << "\n";
    });
    if (entry) found = entry->path.string();
  });
  found = world.broadcast_text(found);
  if (found.empty()) return std::nullopt;
  return found;
}

int run(const std::filesystem::path& folder, std::int64_t epochs) {
  auto world = lockstep::join();
  Data data;
  torch::manual_seed(1);
  lockstep::Classifier classifier(lockstep::make_network({.name = "mlp", .input_shape = {8}, .classes = 4}), 4,
                                  {.optimizer = {.name = "adam", .lr = 1e-3}});
  const auto from = newest(folder / "snapshots", world);
  lockstep::Trainer trainer({.max_epochs = epochs, .snapshot = {.folder = folder / "snapshots", .resume_from = from}});
  const auto result = trainer.fit(classifier, data, world);
  if (world.is_main()) {
    std::printf("%s, now at step %lld: train loss %.6f, weights %s\n",
                from ? ("went on from " + from->filename().string()).c_str() : "began",
                static_cast<long long>(result.state.step), result.state.metrics.at("train_loss"),
                result.weights_digest.c_str());
  }
  return result.wants_requeue ? lockstep::kExitStopped : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "runs/resume", argc > 2 ? std::stoll(argv[2]) : 5);
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
