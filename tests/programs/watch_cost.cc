// SPDX-License-Identifier: Apache-2.0
// What the watch of a rank costs: watch_cost [PAIRS] [STEPS]. One process trains the smallest model, in pairs of
// blocks, one with the watch and one without, in either order. The watch is all notes in the page, the watchdog of
// collectives, and a parent's look each second. Prints one JSON object; a ratio above 1 means that the watch made steps
// faster.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <mutex>
#include <thread>

#include "lockstep/lockstep.h"
#include "lockstep/watch/page.h"
#include "lockstep/watch/rank_watch.h"

namespace {

struct Net : lockstep::Module {
  Net() {
    torch::manual_seed(1);
    net = register_module("net", torch::nn::Linear(4, 2));
  }
  at::Tensor training_step(const lockstep::Batch& batch) override {
    return torch::nn::functional::cross_entropy(net->forward(batch.input().to(at::kFloat).flatten(1)), batch.target());
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return std::make_unique<torch::optim::SGD>(parameters(), 1e-3);
  }
  torch::nn::Linear net = nullptr;
};

struct Data : lockstep::DataModule {
  std::unique_ptr<lockstep::Loader> train_loader(lockstep::Shard shard) override {
    return std::make_unique<lockstep::Loader>(source, lockstep::LoaderOptions{.global_batch = 2, .shard = shard});
  }
  std::shared_ptr<lockstep::SampleSource> source =
      lockstep::synthetic_source({.samples = 2000, .classes = 2, .shape = {4}});
};

/// Turns the watch on and off after so many steps, and measures each block. Blocks go on, off, off, on, and so on.
class Blocks : public lockstep::Listener {
 public:
  Blocks(int pairs, std::int64_t steps) : pairs_(pairs), steps_(steps) {}

  std::string name() const override { return "blocks"; }
  lockstep::Verdict on(const lockstep::StepEnded& step) override {
    if (step.step < kWarmSteps) return lockstep::Verdict::kContinue;
    if ((step.step - kWarmSteps) % steps_ != 0) return lockstep::Verdict::kContinue;
    const auto now = lockstep::Clock::now();
    if (block_ >= 0) (is_on_ ? on_s_ : off_s_).push_back(lockstep::seconds_between(began_, now));
    ++block_;
    if (block_ == 2 * pairs_) return lockstep::Verdict::kStop;
    is_on_ = block_ % 4 == 0 || block_ % 4 == 3;
    lockstep::Page::own().set_on(is_on_);
    began_ = lockstep::Clock::now();
    return lockstep::Verdict::kContinue;
  }

  // A virtual machine pauses now and then, for longer than a block. So this is the median, and its 95 % interval is
  // between two of the sorted ratios: a binomial distribution tells which.
  void print() const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < on_s_.size(); ++i) ratios.push_back(off_s_.at(i) / on_s_.at(i));
    std::ranges::sort(ratios);
    const double half = 0.98 * std::sqrt(pairs_);
    const auto at = [&](double place) {
      return ratios.at(static_cast<std::size_t>(std::clamp(place, 0.0, pairs_ - 1.0)));
    };
    double seconds = 0;
    for (const double each : off_s_) seconds += each;
    std::cout << "{\"pairs\":" << pairs_ << ",\"steps_per_block\":" << steps_
              << ",\"step_us\":" << 1e6 * seconds / (pairs_ * static_cast<double>(steps_))
              << ",\"ratio\":" << at(0.5 * (pairs_ - 1)) << ",\"low\":" << at(std::floor(0.5 * pairs_ - half))
              << ",\"high\":" << at(std::ceil(0.5 * pairs_ + half)) << "}\n";
  }

 private:
  static constexpr std::int64_t kWarmSteps = 2000;

  int pairs_;
  std::int64_t steps_;
  int block_ = -1;
  bool is_on_ = true;
  lockstep::Clock::time_point began_{};
  std::vector<double> on_s_;
  std::vector<double> off_s_;
};

/// Looks as a parent does. Here it is a thread, so its cost counts too, also what a core of its own would hide.
void look_each_second(const std::stop_token& stop) {
  lockstep::RankWatch watch;
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    if (lockstep::Page::own().is_on()) {
      watch.look({lockstep::watched_rank(0, ::getpid(), &lockstep::Page::own().layout())}, lockstep::Clock::now());
    }
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, lockstep::RankWatch::kLookEvery, [] { return false; });
  }
}

void run(int pairs, std::int64_t steps) {
  torch::set_num_threads(1);
  auto world = lockstep::join({.connect_single_rank = true});
  const std::jthread parent(look_each_second);
  Net net;
  Data data;
  Blocks blocks(pairs, steps);
  lockstep::Trainer trainer({.max_epochs = 1'000'000});
  trainer.add(blocks);
  trainer.fit(net, data, world);
  blocks.print();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? std::stoi(argv[1]) : 1000, argc > 2 ? std::stoll(argv[2]) : 100);
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
