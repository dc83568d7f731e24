// SPDX-License-Identifier: Apache-2.0
// A callback gets the six events of a run as plain numbers, and may end the run. This one does so once the loss is low
// enough.
//   lockstep launch -n 2 -- 06_custom_callback [LOSS]
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

#include "lockstep/lockstep.h"

namespace {

class StopAtLoss final : public lockstep::Listener {
 public:
  explicit StopAtLoss(double wanted) : wanted_(wanted) {}

  using Listener::on;
  std::string name() const override { return "stop at loss"; }

  lockstep::Verdict on(const lockstep::RunStarted& run) override {
    std::printf("%lld parameters on %d ranks, batches of %lld\n", static_cast<long long>(run.parameters), run.world,
                static_cast<long long>(run.global_batch));
    return lockstep::Verdict::kContinue;
  }

  lockstep::Verdict on(const lockstep::StepEnded& step) override {
    if (!step.loss) return lockstep::Verdict::kContinue;  // Losses are told each log_every steps.
    std::printf("step %lld: loss %.4f\n", static_cast<long long>(step.step), *step.loss);
    return *step.loss <= wanted_ ? lockstep::Verdict::kStop : lockstep::Verdict::kContinue;
  }

  lockstep::Verdict on(const lockstep::RunEnded& run) override {
    std::printf("ended by %s after %lld steps\n", run.stopped_by.c_str(), static_cast<long long>(run.step));
    return lockstep::Verdict::kContinue;
  }

 private:
  double wanted_;
};

struct Data : lockstep::DataModule {
  std::unique_ptr<lockstep::Loader> train_loader(lockstep::Shard shard) override {
    return std::make_unique<lockstep::Loader>(points, lockstep::LoaderOptions{.global_batch = 100, .shard = shard});
  }
  std::shared_ptr<const lockstep::SampleSource> points =
      lockstep::synthetic_source({.samples = 2000, .classes = 4, .shape = {8}, .seed = 1});
};

void run(double loss) {
  auto world = lockstep::join();
  Data data;
  torch::manual_seed(1);
  lockstep::Classifier classifier(lockstep::make_network({.name = "mlp", .input_shape = {8}, .classes = 4}), 4,
                                  {.optimizer = {.name = "adam", .lr = 3e-3}});
  lockstep::Trainer trainer({.max_epochs = 100, .log_every = 10});
  StopAtLoss callback(loss);
  if (world.is_main()) trainer.add(callback);  // One rank's word is enough; the others agree after the same step.
  trainer.fit(classifier, data, world);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? std::stod(argv[1]) : 0.1);
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
