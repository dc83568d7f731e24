// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/pass_speed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>

#include "lockstep/base/clock.h"
#include "lockstep/models/compiled_network.h"

namespace lockstep {
namespace {

constexpr int kWarmUps = 2;
constexpr int kMostRounds = 20;
constexpr double kLongestSeconds = 4;

double seconds_of_pass(Network& network, const at::Tensor& batch, Precision precision) {
  const auto start = Clock::now();
  {
    const AutocastScope scope(precision, batch.device());
    network.forward(batch).sum().backward();
  }
  for (const auto& each : network.parameters()) each.mutable_grad().reset();
  return seconds_between(start, Clock::now());
}

/// Keeps the state of LibTorch's generator, which dropout changes.
class SameRandomNumbers {
 public:
  SameRandomNumbers() : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  ~SameRandomNumbers() { generator_.set_state(state_); }
  SameRandomNumbers(const SameRandomNumbers&) = delete;
  SameRandomNumbers& operator=(const SameRandomNumbers&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

PassSeconds pass_seconds(const std::function<std::shared_ptr<Network>()>& make, const std::filesystem::path& file,
                         const at::Tensor& example, Precision precision) {
  const SameRandomNumbers same;
  // The time of max pooling and the like depends on the numbers, and equal ones are the fastest.
  const auto batch = example.is_floating_point() ? at::randn_like(example) : example;
  const auto plain = make();
  const auto compiled = make_compiled_network(file, make());
  plain->train(true);
  compiled->train(true);
  for (int i = 0; i < kWarmUps; ++i) {
    seconds_of_pass(*plain, batch, precision);
    seconds_of_pass(*compiled, batch, precision);
  }
  // The least time is the one that other work on this machine disturbed least.
  PassSeconds least{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  const auto start = Clock::now();
  for (int i = 0; i < kMostRounds && (i == 0 || seconds_between(start, Clock::now()) < kLongestSeconds); ++i) {
    least.plain = std::min(least.plain, seconds_of_pass(*plain, batch, precision));
    least.compiled = std::min(least.compiled, seconds_of_pass(*compiled, batch, precision));
  }
  return least;
}

}  // namespace lockstep
