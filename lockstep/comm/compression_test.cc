// SPDX-License-Identifier: Apache-2.0
// Compares compression with PyTorch's communication hooks. tests/golden/compression/make.py wrote the expected numbers
// and describes the network.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "lockstep/comm/compression_state.h"
#include "lockstep/comm/data_parallel.h"
#include "tests/support/ranks.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::message_of;

struct Net : torch::nn::Module {
  Net() {
    fc1 = register_module("fc1", torch::nn::Linear(24, 32));
    fc2 = register_module("fc2", torch::nn::Linear(32, 16));
    fc3 = register_module("fc3", torch::nn::Linear(16, 3));
    to(at::kDouble);
    const torch::NoGradGuard no_grad;
    double i = 0;
    for (auto& parameter : parameters()) {
      const auto places = at::arange(parameter.numel(), at::kDouble);
      parameter.copy_((at::sin(places * 1.7 + i++) * 0.3).view(parameter.sizes()));
    }
  }
  at::Tensor loss(const at::Tensor& x) {
    return (fc3(torch::tanh(fc2(torch::tanh(fc1(x))))) - 0.5).pow(2).sum(1).mean();
  }

  torch::nn::Linear fc1 = nullptr, fc2 = nullptr, fc3 = nullptr;
};

constexpr std::int64_t kRows = 8;

at::Tensor rows_of(Group& group, std::int64_t step) {
  const auto rows = at::arange(kRows, at::kDouble).view({-1, 1});
  const auto columns = at::arange(24, at::kDouble).view({1, -1});
  const auto share = kRows / group.world();
  return at::sin((rows + 1) * (columns + 1) * 0.37 + static_cast<double>(step)).narrow(0, group.rank() * share, share);
}

double mean_over_ranks(Group& group, const at::Tensor& value) {
  auto sum = value.detach().clone();
  group.all_reduce_sum(sum);
  return sum.item<double>() / group.world();
}

// Passes the state on as a snapshot does: rank 0 writes it, and all ranks read it.
CompressionState read_by_all(Group& group, const CompressionState& state) {
  c10::Dict<std::string, at::Tensor> written;
  for (const auto& [name, tensor] : state) written.insert(name, tensor);
  const auto bytes = torch::pickle_save(written);
  const auto text = group.broadcast_text(std::string(bytes.begin(), bytes.end()));
  CompressionState out;
  for (const auto& each : torch::pickle_load({text.begin(), text.end()}).toGenericDict()) {
    out[each.key().toStringRef()] = each.value().toTensor();
  }
  return out;
}

// A network that is trained step by step, in parallel.
struct Training {
  Training(Group& group_, const CompressionOptions& compression)
      : group(group_), options{.bucket_mib = 1.0 / 256, .compression = compression} {
    parallel = std::make_unique<DistributedDataParallel>(net, group, options);
    optimizer = std::make_unique<torch::optim::SGD>(net.parameters(), 0.02);
  }
  void make_steps(std::int64_t count) {
    for (const auto end = step + count; step < end; ++step) {
      optimizer->zero_grad();
      const auto x = rows_of(group, step);
      const auto loss = net.loss(x);
      parallel->backward(loss, x.size(0), kRows);
      optimizer->step();
      losses.push_back(mean_over_ranks(group, loss));
    }
  }
  // Continues in a new object with the state of the old one.
  void resume() {
    const auto state = read_by_all(group, parallel->compression_state());
    options.layout = parallel->layout();
    parallel.reset();
    for (auto& parameter : net.parameters()) parameter.mutable_grad().reset();
    parallel = std::make_unique<DistributedDataParallel>(net, group, options);
    for (const auto& [name, tensor] : state) parallel->restore_compression({{name, tensor}});
  }

  Group& group;
  Net net;
  DataParallelOptions options;
  std::unique_ptr<DistributedDataParallel> parallel;
  std::unique_ptr<torch::optim::SGD> optimizer;
  std::int64_t step = 0;
  std::vector<double> losses;
};

json golden() {
  return json::parse(text_of_file(lockstep::testing::source_root() / "tests/golden/compression/runs.json"));
}

CompressionOptions options_of(const std::string& name, const json& settings) {
  CompressionOptions options{.kind = compression_named(name.substr(0, name.find('-'))), .seed = golden().at("seed")};
  if (settings.contains("rank")) {
    options.rank = settings.at("rank");
    options.start_step = settings.at("start");
  }
  return options;
}

double largest_difference(const at::Tensor& ours, const json& wanted) {
  const auto numbers = wanted.get<std::vector<double>>();
  return (ours.flatten().narrow(0, 0, std::ssize(numbers)) - at::tensor(numbers, at::kDouble))
      .abs()
      .max()
      .item<double>();
}

RANKS_TEST(Compression, GivesWhatPyTorchsHooksGive, 2) {
  const auto all = golden();
  const auto plain = all.at("runs").at("none").at("losses").get<std::vector<double>>();
  for (const auto& [name, wanted] : all.at("runs").items()) {
    Training ours(group, options_of(name, wanted.at("settings")));
    ours.make_steps(std::ssize(plain));
    // Narrow types round equal numbers to equal bits, so these must match exactly. Matrix products may add in another
    // order than PyTorch's, so they get a tolerance.
    constexpr double kTolerance = 1e-9;
    double from_plain = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_NEAR(ours.losses[i], wanted["losses"][i].get<double>(), kTolerance) << name << " step " << i;
      from_plain = std::max(from_plain, std::abs(ours.losses[i] - plain[i]));
    }
    EXPECT_LT(largest_difference(ours.net.fc1->weight, wanted["fc1"]), kTolerance) << name;
    EXPECT_LT(largest_difference(ours.net.fc2->weight, wanted["fc2"]), kTolerance) << name;
    EXPECT_LT(largest_difference(ours.net.fc3->bias, wanted["fc3"]), kTolerance) << name;
    if (name != "none") {
      EXPECT_GT(from_plain, 100 * kTolerance) << name << " changes nothing: the check is blind";
    }
  }
}

const CompressionOptions kPowerSgdOfTwo{.kind = Compression::kPowerSgd, .rank = 2, .start_step = 2};

RANKS_TEST(Compression, GoesOnFromWhatWasKeptBitForBit, 2) {
  Training whole(group, kPowerSgdOfTwo);
  whole.make_steps(10);
  for (const std::int64_t at : {1, 4, 7}) {
    Training resumed(group, kPowerSgdOfTwo);
    resumed.make_steps(at);
    resumed.resume();
    resumed.make_steps(10 - at);
    EXPECT_EQ(resumed.losses, whole.losses) << at;
  }
}

RANKS_TEST(Compression, TakingItsStateOutChangesNothing, 2) {
  Training whole(group, kPowerSgdOfTwo);
  whole.make_steps(10);
  Training saved(group, kPowerSgdOfTwo);
  for (int i = 0; i < 10; ++i) {
    saved.make_steps(1);
    saved.parallel->compression_state();
  }
  EXPECT_EQ(saved.losses, whole.losses);
}

RANKS_TEST(Compression, RankZeroGathersEachRanksErrors, 2) {
  Training training(group, kPowerSgdOfTwo);
  training.make_steps(5);
  const auto state = training.parallel->compression_state();
  EXPECT_EQ(state.empty(), !group.is_main());
  if (!group.is_main()) return;
  EXPECT_EQ(state.at("step").item<std::int64_t>(), 5);
  EXPECT_EQ(state.at("error.0").sizes(), (std::vector<std::int64_t>{2, 32, 24}));
  EXPECT_EQ(state.at("right.0").sizes(), (std::vector<std::int64_t>{24, 2}));
  EXPECT_FALSE(state.at("error.0")[0].equal(state.at("error.0")[1]));
}

RANKS_TEST(Compression, AnotherRankOfMatricesBeginsAnewWithThem, 2) {
  Training training(group, kPowerSgdOfTwo);
  training.make_steps(5);
  training.options.compression.rank = 1;
  training.resume();
  training.make_steps(3);
  const auto state = training.parallel->compression_state();
  if (!group.is_main()) return;
  EXPECT_EQ(state.at("right.0").sizes(), (std::vector<std::int64_t>{24, 1}));
}

TEST(Compression, AnotherNumberOfRanksTakesTheMeanOfErrors) {
  const auto of_three = at::arange(12, at::kDouble).view({3, 2, 2});
  EXPECT_TRUE(own_compression("error.4", of_three, 1, 3).equal(of_three[1]));
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(own_compression("error.4", of_three, rank, 2).equal(at::arange(4, 8, at::kDouble).view({2, 2})));
  }
  EXPECT_TRUE(own_compression("right.4", of_three[0], 1, 2).equal(of_three[0]));
}

TEST(Compression, TakesTheMeanThatOlderVersionsWrote) {
  const auto mean = at::arange(4, at::kDouble).view({2, 2});
  for (const int rank : {0, 1}) EXPECT_TRUE(own_compression("error.4", mean, rank, 2).equal(mean));
}

TEST(Compression, OneRankHandsOnWhatItCannotUse) {
  auto alone = testing::one_rank();
  Net net;
  DistributedDataParallel parallel(net, alone, {.compression = kPowerSgdOfTwo});
  const auto errors = at::arange(12, at::kDouble).view({3, 2, 2});
  parallel.restore_compression({{"error.0", errors}, {"step", at::full({}, 7, at::kLong)}});
  const auto state = parallel.compression_state();
  EXPECT_TRUE(state.at("error.0").equal(errors.mean(0, /*keepdim=*/true)));
  EXPECT_EQ(state.at("step").item<std::int64_t>(), 7);
}

RANKS_TEST(Compression, LeavesSignalsAndCountsAlone, 2) {
  Net net;
  DistributedDataParallel parallel(net, group, {.compression = {.kind = Compression::kFp16}});
  Net whole;
  // Without a total, the counts of samples are averaged with the gradients. float16 cannot hold 4097, so this finds a
  // count that is sent in the narrow type.
  const auto x = at::sin(at::arange(4097 * 24, at::kDouble)).view({4097, 24});
  whole.loss(x).backward();
  const auto part = group.rank() == 0 ? x.narrow(0, 0, 4096) : x.narrow(0, 4096, 1);
  if (group.rank() == 1) parallel.raise(Signal::kStop);
  parallel.backward(net.loss(part), part.size(0));
  EXPECT_TRUE(parallel.agreed(Signal::kStop));
  const auto wanted = whole.fc1->weight.grad();
  EXPECT_LT((net.fc1->weight.grad() - wanted).abs().max().item<double>(), 2e-3 * wanted.abs().max().item<double>());
}

RANKS_TEST(Compression, RefusesWhatPowersgdCannotDo, 2) {
  const auto message = [&](CompressionOptions compression) {
    compression.kind = Compression::kPowerSgd;
    Net net;
    return message_of(ErrorKind::kUsage, [&] { DistributedDataParallel(net, group, {.compression = compression}); });
  };
  EXPECT_HAS(message({.rank = 0}), "powersgd's rank is 0, want at least 1");
  EXPECT_HAS(message({.start_step = 1}), "powersgd would start after 1 steps, want at least 2");
}

TEST(Compression, KnowsItsNames) {
  EXPECT_EQ(compression_named("powersgd"), Compression::kPowerSgd);
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [] { compression_named("zip"); }), "there is no compression 'zip'");
}

}  // namespace
}  // namespace lockstep
