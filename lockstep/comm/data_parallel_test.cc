// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/data_parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <numeric>

#include "tests/support/lost_rank.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;

constexpr double kMiB = 1 << 20;

// Registers its parameters in the reverse order of their use, so that buckets change after the first step.
struct Net : torch::nn::Module {
  explicit Net(std::int64_t width = 9, std::int64_t seed = 0) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    fc3 = register_module("fc3", torch::nn::Linear(width, 3));
    fc2 = register_module("fc2", torch::nn::Linear(width, width));
    fc1 = register_module("fc1", torch::nn::Linear(5, width));
    seen = register_buffer("seen", at::full({2}, static_cast<double>(seed)));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return fc3(torch::tanh(fc2(torch::tanh(fc1(x))))); }
  at::Tensor loss(const at::Tensor& x) { return forward(x).pow(2).sum(1).mean(); }

  torch::nn::Linear fc1 = nullptr, fc2 = nullptr, fc3 = nullptr;
  at::Tensor seen;
};

// Small enough for several buckets.
const DataParallelOptions kManyBuckets{.bucket_mib = 200 / kMiB, .layout = {}};

at::Tensor inputs(std::int64_t samples, std::uint64_t seed) {
  torch::manual_seed(seed);
  return at::randn({samples, 5}, at::kDouble);
}

// This rank's rows of a whole batch.
at::Tensor part_of_rows(const at::Tensor& whole, const std::vector<std::int64_t>& parts, int rank) {
  std::int64_t first = 0;
  for (int r = 0; r < rank; ++r) first += parts[static_cast<std::size_t>(r)];
  return whole.slice(0, first, first + parts[static_cast<std::size_t>(rank)]);
}

void run_backward(DistributedDataParallel& parallel, Net& net, const at::Tensor& x,
                  std::optional<std::int64_t> global = {}) {
  parallel.backward(x.size(0) > 0 ? net.loss(x) : at::Tensor(), x.size(0), global);
}

void expect_equal_gradients(Net& ours, Net& whole, const std::string& where) {
  for (std::size_t i = 0; i < ours.parameters().size(); ++i) {
    const auto wanted = whole.parameters()[i].grad();
    const auto difference = (ours.parameters()[i].grad() - wanted).abs().max().item<double>();
    EXPECT_LT(difference, 1e-12 * std::max(1.0, wanted.abs().max().item<double>())) << where << " " << i;
  }
}

// True if every rank has bit for bit what rank 0 has.
bool is_same_everywhere(Group& group, const at::Tensor& tensor) {
  auto theirs = tensor.detach().clone();
  group.broadcast(theirs);
  const auto different = group.all_gather(at::equal(theirs, tensor) ? 0 : 1);
  return std::all_of(different.begin(), different.end(), [](auto each) { return each == 0; });
}

RANKS_TEST(DataParallel, GivesEveryRankTheWeightsAndBuffersOfRankZero, 3) {
  Net net(9, /*seed=*/1 + group.rank());
  Net first(9, /*seed=*/1);
  const DistributedDataParallel parallel(net, group);
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(net.parameters()[i], first.parameters()[i]));
  EXPECT_TRUE(at::equal(net.seen, first.seen));
}

RANKS_TEST(DataParallel, RefusesAModuleThatDiffersNamingTheTensorAndTheRanks, 3) {
  Net wider(group.rank() == 2 ? 8 : 9);
  const auto shape = message_of(ErrorKind::kUsage, [&] { DistributedDataParallel(wider, group); });
  EXPECT_HAS(shape,
             "the module differs between ranks: rank 0 has 'parameter fc3.weight [3, 9] Double', rank 2 has "
             "'parameter fc3.weight [3, 8] Double' (different from rank 0: 2)");
  Net renamed;
  if (group.rank() > 0) renamed.register_buffer("extra", at::zeros({1}));
  const auto name = message_of(ErrorKind::kUsage, [&] { DistributedDataParallel(renamed, group); });
  EXPECT_HAS(name, "rank 1 has 'buffer extra [1] Float");
  EXPECT_HAS(name, "(different from rank 0: 1, 2)");
  Net frozen;
  if (group.rank() == 1) frozen.fc2->bias.requires_grad_(false);
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { DistributedDataParallel(frozen, group); }),
             "'frozen parameter fc2.bias [9] Double'");
}

RANKS_TEST(DataParallel, GradientsAreThoseOfOneProcessOnTheWholeBatch, 3) {
  const std::vector<std::vector<std::int64_t>> kParts = {{2, 2, 2}, {4, 1, 2}, {5, 2, 0}, {1, 0, 0}, {0, 3, 1}};
  for (const bool says_global : {false, true}) {
    Net net;
    Net whole;
    DistributedDataParallel parallel(net, group, kManyBuckets);
    for (std::size_t step = 0; step < 2 * kParts.size(); ++step) {
      const auto& parts = kParts[step % kParts.size()];
      const auto x = inputs(parts[0] + parts[1] + parts[2], step);
      net.zero_grad();
      whole.zero_grad();
      whole.loss(x).backward();
      run_backward(parallel, net, part_of_rows(x, parts, group.rank()),
                   says_global ? std::optional(x.size(0)) : std::nullopt);
      expect_equal_gradients(net, whole, "step " + std::to_string(step) + (says_global ? " with" : " without"));
    }
  }
}

RANKS_TEST(DataParallel, AccumulatingIsABatchTwiceAsLarge, 3) {
  const std::vector<std::vector<std::int64_t>> kFirst = {{3, 2, 1}, {1, 1, 1}, {2, 0, 2}};
  const std::vector<std::vector<std::int64_t>> kSecond = {{2, 2, 2}, {4, 3, 0}, {0, 1, 1}};
  for (const bool says_global : {false, true}) {
    Net net;
    Net whole;
    DistributedDataParallel parallel(net, group, kManyBuckets);
    for (std::size_t step = 0; step < kFirst.size(); ++step) {
      const auto count = [](const auto& parts) { return std::accumulate(parts.begin(), parts.end(), std::int64_t{0}); };
      const auto a = inputs(count(kFirst[step]), 2 * step);
      const auto b = inputs(count(kSecond[step]), 2 * step + 1);
      const auto global = says_global ? std::optional(a.size(0) + b.size(0)) : std::nullopt;
      net.zero_grad();
      whole.zero_grad();
      whole.loss(at::cat({a, b})).backward();
      {
        const auto guard = parallel.no_sync();
        run_backward(parallel, net, part_of_rows(a, kFirst[step], group.rank()), global);
      }
      run_backward(parallel, net, part_of_rows(b, kSecond[step], group.rank()), global);
      expect_equal_gradients(net, whole, "step " + std::to_string(step) + (says_global ? " with" : " without"));
    }
  }
}

RANKS_TEST(DataParallel, GradientsThatWereNotResetAreAddedTo, 3) {
  const std::vector<std::int64_t> kParts = {3, 2, 0};
  for (const bool says_global : {false, true}) {
    Net net;
    Net whole;
    DistributedDataParallel parallel(net, group, kManyBuckets);
    for (std::uint64_t step = 0; step < 4; ++step) {
      const auto x = inputs(5, step);
      whole.loss(x).backward();
      run_backward(parallel, net, part_of_rows(x, kParts, group.rank()),
                   says_global ? std::optional(x.size(0)) : std::nullopt);
      expect_equal_gradients(net, whole, "step " + std::to_string(step) + (says_global ? " with" : " without"));
    }
  }
}

TEST(DataParallel, RefusesATotalForSomeBatchesOfAStepOnly) {
  auto group = one_rank();
  Net net;
  DistributedDataParallel parallel(net, group);
  {
    const auto guard = parallel.no_sync();
    run_backward(parallel, net, inputs(2, 1), 4);
  }
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { run_backward(parallel, net, inputs(2, 1)); }),
             "global_samples is given for some of the batches");
}

RANKS_TEST(DataParallel, NamesTheParameterThatTheLossDoesNotDependOn, 2) {
  Net net;
  DistributedDataParallel parallel(net, group);
  const auto loss = torch::tanh(net.fc1(inputs(4, 1))).pow(2).mean();
  const auto text = message_of(ErrorKind::kUsage, [&] { parallel.backward(loss, 4); });
  EXPECT_HAS(text, "the loss does not depend on fc3.weight, fc3.bias, fc2.weight, fc2.bias");
  EXPECT_HAS(text, "find_unused_parameters");
}

at::Tensor loss_without_fc2(Net& net, const at::Tensor& rows) {
  return net.fc3(torch::tanh(net.fc1(rows))).pow(2).sum(1).mean();
}

// Makes three steps of 6 samples with a loss that does not use fc2. `parts_of` gives each rank's samples. The gradients
// must equal those of one rank.
void expect_steps_without_fc2(DistributedDataParallel& parallel, Net& net, int rank,
                              const std::function<std::vector<std::int64_t>(int step)>& parts_of) {
  Net whole;
  for (int step = 0; step < 3; ++step) {
    const auto x = inputs(6, static_cast<std::uint64_t>(step));
    net.zero_grad();
    whole.zero_grad();
    loss_without_fc2(whole, x).backward();
    const auto rows = part_of_rows(x, parts_of(step), rank);
    parallel.backward(rows.size(0) > 0 ? loss_without_fc2(net, rows) : at::Tensor(), rows.size(0));
    EXPECT_FALSE(net.fc2->weight.grad().defined());
    for (const auto& [mine, theirs] : {std::pair{net.fc1, whole.fc1}, std::pair{net.fc3, whole.fc3}}) {
      EXPECT_TRUE(at::allclose(mine->weight.grad(), theirs->weight.grad(), 1e-12, 1e-14)) << "step " << step;
    }
  }
}

RANKS_TEST(DataParallel, FindsUnusedParametersWhereAskedTo, 2) {
  Net net;
  DistributedDataParallel parallel(net, group,
                                   {.bucket_mib = 200 / kMiB, .find_unused_parameters = true, .layout = {}});
  // In the last step rank 1 has no samples.
  expect_steps_without_fc2(parallel, net, group.rank(), [](int step) {
    return step < 2 ? std::vector<std::int64_t>{4, 2} : std::vector<std::int64_t>{6, 0};
  });
}

RANKS_TEST(DataParallel, AStaticGraphsUnusedParametersAreFoundOnce, 2) {
  Net net;
  DistributedDataParallel parallel(net, group, {.bucket_mib = 200 / kMiB, .static_graph = true});
  // In the first step rank 1 has no samples, and so no autograd graph.
  expect_steps_without_fc2(parallel, net, group.rank(), [](int step) {
    return step > 0 ? std::vector<std::int64_t>{4, 2} : std::vector<std::int64_t>{6, 0};
  });
  const auto text = message_of(ErrorKind::kUsage, [&] { parallel.backward(net.loss(inputs(3, 9)), 3); });
  EXPECT_HAS(text, "the loss depends on fc2.weight, and did not in the first step");
}

RANKS_TEST(DataParallel, AStaticGraphMustBeTheSameOnEveryRank, 2) {
  Net net;
  DistributedDataParallel parallel(net, group, {.static_graph = true});
  const auto x = inputs(3, 1);
  const auto loss = group.rank() == 0 ? loss_without_fc2(net, x) : net.loss(x);
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { parallel.backward(loss, 3); }), "use find_unused_parameters instead");
  EXPECT_HAS(
      message_of(ErrorKind::kUsage,
                 [&] { DistributedDataParallel(net, group, {.find_unused_parameters = true, .static_graph = true}); }),
      "static_graph and find_unused_parameters are both set");
}

RANKS_TEST(DataParallel, AnOptimizersZeroGradWorksBetweenSteps, 2) {
  for (const bool set_to_none : {false, true}) {
    Net net;
    Net whole;
    DistributedDataParallel parallel(net, group, kManyBuckets);
    torch::optim::SGD ours(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    torch::optim::SGD theirs(whole.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (std::uint64_t step = 0; step < 5; ++step) {
      const auto x = inputs(5, step);
      ours.zero_grad(set_to_none);
      theirs.zero_grad(set_to_none);
      run_backward(parallel, net, part_of_rows(x, {3, 2}, group.rank()));
      whole.loss(x).backward();
      ours.step();
      theirs.step();
    }
    for (std::size_t i = 0; i < net.parameters().size(); ++i) {
      EXPECT_TRUE(at::allclose(net.parameters()[i], whole.parameters()[i], 1e-12, 1e-13)) << i << " " << set_to_none;
      EXPECT_TRUE(is_same_everywhere(group, net.parameters()[i]));
    }
  }
}

RANKS_TEST(DataParallel, ASignalOfOneRankIsSeenByAllAfterTheSameBackward, 3) {
  Net net;
  DistributedDataParallel parallel(net, group);
  for (int step = 0; step < 6; ++step) {
    if (step == 2 && group.rank() == 1) parallel.raise(Signal::kStop);
    if (step == 4 && group.rank() == 2) parallel.raise(Signal::kSnapshot);
    if (step == 3) {
      const auto guard = parallel.no_sync();
      run_backward(parallel, net, inputs(2, 1));
    }
    run_backward(parallel, net, group.rank() == 1 ? inputs(0, 1) : inputs(2, 1));
    EXPECT_EQ(parallel.agreed(Signal::kStop), step == 2) << step;
    EXPECT_EQ(parallel.agreed(Signal::kSnapshot), step == 4) << step;
  }
  EXPECT_TRUE(parallel.agree_now(Signal::kStop, group.rank() == 2));
  EXPECT_TRUE(parallel.agreed(Signal::kStop));
  EXPECT_FALSE(parallel.agree_now(Signal::kStop, false));
}

// Returns the weights after `to` steps, with a new object from step `from` on. Their last bits depend on the buckets.
std::vector<at::Tensor> trained(Group& group, int steps, std::optional<int> from, bool keeps_layout = true) {
  Net net(40);
  net.to(at::kFloat);
  auto options = kManyBuckets;
  auto parallel = std::make_unique<DistributedDataParallel>(net, group, options);
  torch::optim::SGD optimizer(net.parameters(), 0.3);
  for (int step = 0; step < steps; ++step) {
    if (from == step) {
      const auto layout = parallel->layout();
      if (keeps_layout) options.layout = layout;
      parallel.reset();
      for (auto& parameter : net.parameters()) parameter.mutable_grad().reset();
      parallel = std::make_unique<DistributedDataParallel>(net, group, options);
      EXPECT_EQ(parallel->layout() == layout, keeps_layout);
    }
    optimizer.zero_grad();
    const auto x = inputs(12, static_cast<std::uint64_t>(step)).to(at::kFloat);
    run_backward(*parallel, net, part_of_rows(x, {5, 4, 3}, group.rank()));
    optimizer.step();
    EXPECT_GT(parallel->layout().size(), 1U);
  }
  return net.parameters();
}

bool all_equal(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), [](auto& a, auto& b) { return at::equal(a, b); });
}

RANKS_TEST(DataParallel, WithTheLayoutOfASnapshotGoesOnBitForBit, 3) {
  const auto whole = trained(group, 8, {});
  for (const int from : {1, 2, 4}) {
    const auto resumed = trained(group, 8, from);
    EXPECT_TRUE(all_equal(resumed, whole)) << "resumed after step " << from;
    for (const auto& each : resumed) EXPECT_TRUE(is_same_everywhere(group, each));
  }
  auto strange = whole;
  for (int from = 1; from < 8 && all_equal(strange, whole); ++from) strange = trained(group, 8, from, false);
  EXPECT_FALSE(all_equal(strange, whole))
      << "after no step does the layout round a sum differently: the check is blind";
}

RANKS_TEST(DataParallel, BroadcastsBuffersOfRankZero, 2) {
  Net net;
  DistributedDataParallel parallel(net, group);
  net.seen.fill_(group.rank() + 3);
  parallel.broadcast_buffers();
  EXPECT_TRUE(at::equal(net.seen, at::full({2}, 3, at::kDouble)));
}

RANKS_TEST(DataParallel, CountsTiedWeightsOnceAndLeavesFrozenOnesAlone, 2) {
  torch::nn::Module module;
  const auto shared = module.register_parameter("a", at::ones({3}, at::kDouble));
  module.register_parameter("b", shared);
  const auto fixed = module.register_parameter("fixed", at::ones({3}, at::kDouble), /*requires_grad=*/false);
  DistributedDataParallel parallel(module, group);
  for (int step = 0; step < 3; ++step) {
    shared.mutable_grad().reset();
    parallel.backward((shared * (group.rank() + 1.0)).sum(), 1);
    EXPECT_TRUE(at::allclose(shared.grad(), at::full({3}, 1.5, at::kDouble)));
    EXPECT_FALSE(fixed.grad().defined());
  }
}

TEST(DataParallel, OnOneRankIsAPlainBackward) {
  auto group = one_rank();
  for (const auto global : {std::optional<std::int64_t>(), std::optional<std::int64_t>(6)}) {
    Net net;
    Net whole;
    DistributedDataParallel parallel(net, group);
    const auto x = inputs(6, 3);
    whole.loss(x).backward();
    {
      const auto guard = parallel.no_sync();
      run_backward(parallel, net, x.slice(0, 0, 2), global);
    }
    parallel.raise(Signal::kStop);
    run_backward(parallel, net, x.slice(0, 2, 6), global);
    expect_equal_gradients(net, whole, "one rank");
    EXPECT_TRUE(parallel.agreed(Signal::kStop));
    // The last batch of an accumulated step may be empty.
    net.zero_grad();
    {
      const auto guard = parallel.no_sync();
      run_backward(parallel, net, x, global);
    }
    run_backward(parallel, net, inputs(0, 1), global);
    expect_equal_gradients(net, whole, "one rank, nothing in the last batch");
    EXPECT_TRUE(parallel.layout().empty());
  }
}

TEST(DataParallel, RefusesWhatIsNoMeanLoss) {
  auto group = one_rank();
  Net net;
  DistributedDataParallel parallel(net, group);
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { parallel.backward(net.forward(inputs(2, 1)), 2); }),
             "the loss has 6 numbers, want 1");
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { parallel.backward({}, 2); }), "a loss is missing for 2 samples");
  torch::nn::Module nothing;
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { DistributedDataParallel(nothing, group); }),
             "no parameter that requires a gradient");
}

TEST(DataParallel, ARankThatDiesInMidTrainingIsAPeerErrorOnTheOthers) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 3, .statuses = {{1, 9}}});
  testing::begin_rank();
  auto group = join();
  Net net;
  DistributedDataParallel parallel(net, group, kManyBuckets);
  run_backward(parallel, net, inputs(2, 1));
  if (group.rank() == 1) ::_exit(9);
  const auto text = message_of(ErrorKind::kPeer, [&] {
    for (int step = 0; step < 100; ++step) run_backward(parallel, net, inputs(2, 1));
  });
  EXPECT_TRUE(testing::names_lost(text, "averaged gradients", 1)) << text;
}

}  // namespace
}  // namespace lockstep
