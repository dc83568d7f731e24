// SPDX-License-Identifier: Apache-2.0
#include "lockstep/snapshot/snapshot.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/snapshot/optimizer_state.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::AsNobody;
using testing::message_of;
using testing::TemporaryFolder;
using testing::Umask;

// Two layers, a buffer, and a parameter that is never trained.
struct Net : torch::nn::Module {
  explicit Net(std::int64_t width = 4) {
    fc1 = register_module("fc1", torch::nn::Linear(3, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
    fc2 = register_module("fc2", torch::nn::Linear(width, 2));
    unused = register_parameter("unused", at::ones({2}));
  }
  at::Tensor forward(const at::Tensor& x) { return fc2(norm(fc1(x))); }

  torch::nn::Linear fc1 = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
  torch::nn::Linear fc2 = nullptr;
  at::Tensor unused;
};

std::unique_ptr<torch::optim::Optimizer> optimizer_for(Net& net, const std::string& name) {
  if (name == "sgd") {
    return std::make_unique<torch::optim::SGD>(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  }
  if (name == "adam") {
    return std::make_unique<torch::optim::Adam>(net.parameters(), torch::optim::AdamOptions(0.01).amsgrad(true));
  }
  return std::make_unique<torch::optim::AdamW>(net.parameters(), torch::optim::AdamWOptions(0.01));
}

void train(Net& net, torch::optim::Optimizer& optimizer, int from, int to) {
  for (int step = from; step < to; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(step));
    optimizer.zero_grad();
    net.forward(at::randn({8, 3})).pow(2).mean().backward();
    optimizer.step();
  }
}

TrainingState some_state(std::int64_t step = 4) {
  TrainingState state;
  state.step = step;
  state.epoch = 2;
  state.place = 30;
  state.samples = 230;
  state.digest.add(1, 17);
  state.loss_sum = 1.0 / 3.0;
  state.loss_samples = 30;
  state.logged = {{"grad_norm", {1.0 / 7.0, 29}}};
  state.rank_sums = {{.loss = {0.1, 10}, .since_logged = {1.0 / 9.0, 3}, .logged = {{"grad_norm", {0.2, 9}}}},
                     {.loss = {0.7, 20}, .since_logged = {}, .logged = {{"grad_norm", {0.3, 20}}}}};
  state.numbers = {{"scheduler.best", 0.1}};
  state.metrics = {{"train_loss", 0.1}, {"val_loss", 1e-300}};
  state.bucket_layout = {{3, 2}, {1, 0, 4}};
  state.world = 3;
  state.seed = ~0ULL;
  state.data_size = 1000;
  return state;
}

std::filesystem::path saved(const TemporaryFolder& folder, Net& net, torch::optim::Optimizer& optimizer,
                            std::int64_t step = 4) {
  return write_snapshot(folder.path(), content_of(net, optimizer, some_state(step))).path;
}

TEST(Snapshot, ResumedTrainingIsBitEqualForEachOptimizer) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    const TemporaryFolder folder;
    Net net;
    const auto optimizer = optimizer_for(net, name);
    train(net, *optimizer, 0, 4);
    const auto path = saved(folder, net, *optimizer);
    const auto at_save = weights_digest(net);
    train(net, *optimizer, 4, 8);

    Net resumed;
    const auto other = optimizer_for(resumed, name);
    restore_snapshot(path, resumed, *other);
    EXPECT_EQ(weights_digest(resumed), at_save) << name;
    train(resumed, *other, 4, 8);
    EXPECT_EQ(weights_digest(resumed), weights_digest(net)) << name;
  }
}

std::vector<std::pair<double, std::int64_t>> pairs(const RankSums& sums) {
  std::vector<std::pair<double, std::int64_t>> out = {{sums.loss.total, sums.loss.samples},
                                                      {sums.since_logged.total, sums.since_logged.samples}};
  for (const auto& [name, sum] : sums.logged) out.emplace_back(sum.total, sum.samples);
  return out;
}

TEST(Snapshot, KeepsEveryFieldOfTheTrainingState) {
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  const auto want = some_state();
  const auto state = restore_snapshot(saved(folder, net, *optimizer), net, *optimizer);
  EXPECT_EQ(state.step, want.step);
  EXPECT_EQ(state.epoch, want.epoch);
  EXPECT_EQ(state.place, want.place);
  EXPECT_EQ(state.samples, want.samples);
  EXPECT_EQ(state.digest.hex(), want.digest.hex());
  EXPECT_EQ(state.loss_sum, want.loss_sum);
  EXPECT_EQ(state.loss_samples, want.loss_samples);
  EXPECT_EQ(state.metrics, want.metrics);
  EXPECT_EQ(state.numbers, want.numbers);
  EXPECT_EQ(state.logged.at("grad_norm").total, want.logged.at("grad_norm").total);
  EXPECT_EQ(state.logged.at("grad_norm").samples, want.logged.at("grad_norm").samples);
  ASSERT_EQ(state.rank_sums.size(), want.rank_sums.size());
  for (std::size_t rank = 0; rank < want.rank_sums.size(); ++rank) {
    EXPECT_EQ(pairs(state.rank_sums[rank]), pairs(want.rank_sums[rank])) << rank;
  }
  EXPECT_EQ(state.bucket_layout, want.bucket_layout);
  EXPECT_EQ(state.world, want.world);
  EXPECT_EQ(state.seed, want.seed);
  EXPECT_EQ(state.data_size, want.data_size);
}

TEST(Snapshot, ItsContentIsACopyThatLaterStepsDoNotTouch) {
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  train(net, *optimizer, 0, 2);
  const auto content = content_of(net, *optimizer, some_state());
  const auto before = weights_digest(net);
  train(net, *optimizer, 2, 4);
  Net other;
  const auto restored = optimizer_for(other, "sgd");
  restore_snapshot(write_snapshot(folder.path(), content).path, other, *restored);
  EXPECT_EQ(weights_digest(other), before);
}

TEST(Snapshot, IsWholeAndSaysItsSize) {
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "adam");
  train(net, *optimizer, 0, 1);
  const auto written = write_snapshot(folder.path(), content_of(net, *optimizer, some_state()));
  EXPECT_EQ(written.path.filename(), "step-0000000004");
  verify_snapshot(written.path);
  std::uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(written.path)) bytes += file.file_size();
  EXPECT_EQ(written.bytes, bytes);
}

TEST(Snapshot, KeepsOnlyTheNewest) {
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  for (const std::int64_t step : {1, 2, 3}) {
    write_snapshot(folder.path(), content_of(net, *optimizer, some_state(step)), {.keep = 2});
  }
  const auto left = listed_snapshots(folder.path());
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].step, 2);
  EXPECT_EQ(left[1].step, 3);
}

// The fault: a run ended because an old snapshot could not be removed, although the new one was complete.
TEST(Snapshot, IsGoodEvenIfAnOldOneCannotBeRemoved) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can own an entry that the writer may not remove";
  const Umask umask(022);  // The other user must be able to read the run's id.
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  write_snapshot(folder.path(), content_of(net, *optimizer, some_state(1)));
  std::filesystem::remove(folder.path() / "latest");
  ASSERT_EQ(::chmod(folder.path().c_str(), 01777), 0);
  std::string path;
  std::string said;
  {
    const AsNobody nobody;
    ::testing::internal::CaptureStderr();
    EXPECT_NO_THROW(path = write_snapshot(folder.path(), content_of(net, *optimizer, some_state(2)), {.keep = 1}).path);
    said = ::testing::internal::GetCapturedStderr();
  }
  EXPECT_HAS(said, "warning: old snapshots stay: ");
  EXPECT_HAS(said, "step-0000000001");
  verify_snapshot(path);
  EXPECT_EQ(listed_snapshots(folder.path()).size(), 2U);
}

TEST(Snapshot, OfAnotherShapeNamesTheTensorAndBothShapes) {
  const TemporaryFolder folder;
  Net net(4);
  const auto optimizer = optimizer_for(net, "sgd");
  const auto path = saved(folder, net, *optimizer);
  Net wider(5);
  const auto other = optimizer_for(wider, "sgd");
  const auto text = message_of(ErrorKind::kData, [&] { restore_snapshot(path, wider, *other); });
  EXPECT_HAS(text, path.string() + " does not fit the model: 'fc1.weight' is F32 [4, 3], want F32 [5, 3]");
  EXPECT_HAS(text, "hint: resume with the recipe that wrote it");
}

TEST(Snapshot, OfAnotherTypeOrWithOtherNamesIsRefused) {
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  const auto path = saved(folder, net, *optimizer);
  Net wide;
  wide.to(at::kDouble);
  const auto other = optimizer_for(wide, "sgd");
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { restore_snapshot(path, wide, *other); }),
             "'unused' is F32 [2], want F64 [2]");
  Net more;
  more.register_parameter("extra", at::ones({1}));
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { restore_snapshot(path, more, *optimizer); }), "it lacks 'extra'");
  const TemporaryFolder second;
  const auto larger_optimizer = optimizer_for(more, "sgd");
  const auto larger = saved(second, more, *larger_optimizer);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { restore_snapshot(larger, net, *optimizer); }),
             "'extra' is not in the model");
}

TEST(Snapshot, OfAnotherOptimizerIsRefused) {
  const TemporaryFolder folder;
  Net net;
  for (const auto& [wrote, reads, wanted] :
       {std::array{"sgd", "adam", "step, exp_avg, exp_avg_sq"}, std::array{"adam", "sgd", "momentum_buffer"}}) {
    const auto writer = optimizer_for(net, wrote);
    train(net, *writer, 0, 1);
    const auto path = saved(folder, net, *writer);
    const auto reader = optimizer_for(net, reads);
    const auto text = message_of(ErrorKind::kData, [&] { restore_snapshot(path, net, *reader); });
    EXPECT_HAS(text, std::string("for 'fc1.weight', this optimizer wants ") + wanted);
  }
}

TEST(Snapshot, StateThatIsDamagedOrOfALaterFormatIsRefused) {
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  const auto file = saved(folder, net, *optimizer) / "state.json";
  const auto whole = text_of_file(file);
  const auto refused = [&](const std::string& text) {
    write_whole(file, text, /*durable=*/false);
    return message_of(ErrorKind::kData, [&] { restore_snapshot(file.parent_path(), net, *optimizer); });
  };
  const auto before = weights_digest(net);
  const auto cut = refused(whole.substr(0, whole.size() / 2));
  EXPECT_HAS(cut, file.string() + " is not a snapshot's state: ");
  EXPECT_HAS(cut, "hint: resume from an earlier snapshot");
  EXPECT_HAS(refused("{}"), "key 'schema' not found");
  auto later = whole;
  later.replace(later.find("\"schema\": 1"), 11, "\"schema\": 2");
  EXPECT_HAS(refused(later), "its schema is 2, want 1");
  auto text_step = whole;
  text_step.replace(text_step.find("\"step\": 4"), 9, "\"step\": \"\"");
  EXPECT_HAS(refused(text_step), "is not a snapshot's state");
  EXPECT_EQ(weights_digest(net), before) << "a refused snapshot changed the weights";
}

// The fault: numbers that are not finite were written as null, and a restore refused null. So one NaN made every
// snapshot useless.
TEST(Snapshot, NumbersThatAreNotFiniteComeBack) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  TrainingState state{.step = 7, .loss_sum = kInfinity, .loss_samples = 3};
  state.logged["loss"] = {kNan, 2};
  state.metrics = {{"val_loss", kNan}, {"val_accuracy", 0.5}};
  state.numbers = {{"scheduler.best", -kInfinity}};
  const auto path = write_snapshot(folder.path(), content_of(net, *optimizer, state)).path;
  const auto found = restore_snapshot(path, net, *optimizer);
  EXPECT_TRUE(found.rank_sums.empty());
  EXPECT_EQ(found.loss_sum, kInfinity);
  EXPECT_TRUE(std::isnan(found.logged.at("loss").total));
  EXPECT_TRUE(std::isnan(found.metrics.at("val_loss")));
  EXPECT_EQ(found.metrics.at("val_accuracy"), 0.5);
  EXPECT_EQ(found.numbers.at("scheduler.best"), -kInfinity);

  auto older = text_of_file(path / "state.json");
  older.replace(older.find("\"val_loss\": \"nan\""), 17, "\"val_loss\": null");
  write_whole(path / "state.json", older, /*durable=*/false);
  EXPECT_TRUE(std::isnan(restore_snapshot(path, net, *optimizer).metrics.at("val_loss")));
  EXPECT_FALSE(state_fault(path));
}

TEST(Snapshot, KeepsTheDescriptionOfTheData) {
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  auto content = content_of(net, *optimizer, {.step = 1});
  EXPECT_EQ(saved_data(write_snapshot(folder.path(), content).path), "");
  content.state.step = 2;
  content.data = R"({"classes":3})";
  EXPECT_EQ(saved_data(write_snapshot(folder.path(), content).path), content.data);
}

TEST(Snapshot, OneWhoseStateCannotBeReadIsPassedOver) {
  const TemporaryFolder folder;
  Net net;
  const auto optimizer = optimizer_for(net, "sgd");
  const auto first = write_snapshot(folder.path(), content_of(net, *optimizer, {.step = 1})).path;
  write_snapshot(folder.path(), content_of(net, *optimizer, {.step = 2}));
  std::vector<std::string> skipped;
  const auto on_skip = [&](const SnapshotEntry&, const std::string& reason) { skipped.push_back(reason); };
  const auto fault = [&](const std::filesystem::path& path) -> std::optional<std::string> {
    if (path == first) return state_fault(path);
    return "its state is of another schema";
  };
  EXPECT_EQ(newest_whole_snapshot(folder.path(), on_skip, fault)->path, first);
  EXPECT_EQ(skipped, std::vector<std::string>{"its state is of another schema"});
  write_whole(first / "state.json", "{}", /*durable=*/false);
  EXPECT_HAS(state_fault(first).value(), "key 'schema' not found");
}

TEST(Snapshot, OfAnOptimizerUnknownHereOrWithStrangeParametersIsRefused) {
  Net net;
  torch::optim::RMSprop strange(net.parameters());
  net.fc1->weight.mutable_grad() = at::ones({4, 3});
  strange.step();
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { content_of(net, strange, {}); }), "use SGD, Adam or AdamW");
  auto alien = at::ones({2}).requires_grad_();
  torch::optim::SGD outside({alien}, torch::optim::SGDOptions(0.1).momentum(0.5));
  alien.mutable_grad() = at::ones({2});
  outside.step();
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { content_of(net, outside, {}); }),
             "register it with register_parameter()");
}

TEST(WeightsDigest, IsTheSameForEqualModules) {
  Net first;
  Net second;
  EXPECT_NE(weights_digest(first), weights_digest(second));
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < first.parameters().size(); ++i) second.parameters()[i].copy_(first.parameters()[i]);
  EXPECT_EQ(weights_digest(first), weights_digest(second));
  EXPECT_EQ(weights_digest(first).size(), 32U);
}

TEST(WeightsDigest, ChangesWithOneBitOfAParameterOrABuffer) {
  Net net;
  const auto before = weights_digest(net);
  auto* bits = static_cast<std::uint8_t*>(net.fc2->bias.mutable_data_ptr());
  bits[0] ^= 1U;
  EXPECT_NE(weights_digest(net), before);
  bits[0] ^= 1U;
  EXPECT_EQ(weights_digest(net), before);
  net.norm->running_mean.add_(1);
  EXPECT_NE(weights_digest(net), before);
}

TEST(WeightsDigest, ChangesWithANameAShapeAndAType) {
  const auto digest_of = [](const std::string& name, const at::Tensor& tensor) {
    torch::nn::Module module;
    module.register_parameter(name, tensor);
    return weights_digest(module);
  };
  const auto base = digest_of("a", at::zeros({2, 3}));
  EXPECT_EQ(digest_of("a", at::zeros({3, 2}).t()), base) << "memory order is not content";
  EXPECT_NE(digest_of("b", at::zeros({2, 3})), base);
  EXPECT_NE(digest_of("a", at::zeros({3, 2})), base);
  EXPECT_NE(digest_of("a", at::zeros({2, 3}, at::kHalf)), base);
}

TEST(SampleDigest, DoesNotDependOnOrderButOnHowOften) {
  SampleDigest forward;
  SampleDigest backward;
  for (std::int64_t i = 0; i < 100; ++i) forward.add(i / 10, i);
  for (std::int64_t i = 99; i >= 0; --i) backward.add(i / 10, i);
  EXPECT_EQ(forward.hex(), backward.hex());
  EXPECT_EQ(forward.hex().size(), 32U);
  forward.add(0, 5);
  EXPECT_NE(forward.hex(), backward.hex());
}

TEST(SampleDigest, TellsEpochFromSample) {
  SampleDigest first;
  SampleDigest second;
  first.add(1, 2);
  second.add(2, 1);
  EXPECT_NE(first.hex(), second.hex());
}

}  // namespace
}  // namespace lockstep
