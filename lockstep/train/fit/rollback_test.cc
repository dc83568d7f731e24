// SPDX-License-Identifier: Apache-2.0
// Trainings that go back to an earlier state when a gradient is not finite.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "lockstep/train/weight_average.h"
#include "tests/support/ranks.h"
#include "tests/support/spoilt_training.h"

namespace lockstep {
namespace {

using testing::failure_of;
using testing::has;
using testing::kNobody;
using testing::one_rank;
using testing::SpoiltData;
using testing::SpoiltNet;
using testing::state_of;
using testing::TemporaryFolder;

// What torch::save keeps of a training, to go back to.
struct TorchCopy {
  std::int64_t step = 0;
  std::string model, optimizer;
};

TorchCopy torch_copy(std::int64_t step, const SpoiltNet& net, const torch::optim::Optimizer& optimizer) {
  const auto text = [](const auto& saved) {
    torch::serialize::OutputArchive archive;
    saved.save(archive);
    std::ostringstream stream;
    archive.save_to(stream);
    return stream.str();
  };
  return {step, text(net), text(optimizer)};
}

void put_back(const TorchCopy& copy, SpoiltNet& net, torch::optim::Optimizer& optimizer) {
  const auto read = [](const std::string& text, auto& into) {
    std::istringstream stream(text);
    torch::serialize::InputArchive archive;
    archive.load_from(stream);
    into.load(archive);
  };
  read(copy.model, net);
  read(copy.optimizer, optimizer);
}

TrainerOptions rolling_back(const std::filesystem::path& folder) {
  return {.max_epochs = 3,
          .snapshot = {.folder = folder, .every_epochs = 0, .every_steps = 3},
          .guard = {.on_nonfinite = OnNonfinite::kRollback, .sanity_check = false}};
}

// Against a loop that torch::saves after every third step and loads that where a batch is spoilt.
TEST(Rollback, GoesOnFromTheNewestSaveWithTheNextBatch) {
  const TemporaryFolder folder;
  auto group = one_rank();
  constexpr std::int64_t kSpoilt = 17;
  SpoiltNet net;
  SpoiltData data(kSpoilt);
  const auto result = Trainer(rolling_back(folder.path() / "snapshots")).fit(net, data, group);

  SpoiltNet own;
  own.train();
  auto optimizer = own.configure_optimizer();
  auto loader = SpoiltData(kSpoilt).train_loader({});
  auto copy = torch_copy(0, own, *optimizer);
  std::int64_t step = 0;
  std::int64_t left_out = 0;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    loader->seek(epoch);
    while (const auto batch = loader->next()) {
      ++step;
      if (std::ranges::count(batch->ids, kSpoilt) > 0) {
        put_back(copy, own, *optimizer);
        left_out += step - std::exchange(copy.step, step);
      } else {
        optimizer->zero_grad();
        own.training_step(*batch).backward();
        optimizer->step();
      }
      if (step % 3 == 0) copy = torch_copy(step, own, *optimizer);
    }
  }
  const auto found = state_of(net);
  const auto wanted = state_of(own);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
  EXPECT_GT(left_out, 3) << "no step but the spoilt ones was undone";
  EXPECT_EQ(result.found.at("rollbacks"), "3");
  EXPECT_EQ(result.found.at("steps_left_out"), std::to_string(left_out));
  EXPECT_EQ(result.state.step, 12);
}

// AdamW and averaged weights, whose state is more than the weights.
struct AdamNet : SpoiltNet {
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "adamw", .lr = 0.01});
  }
};

RANKS_TEST(Rollback, IsTheSameOnEveryRankAndAfterAResume, 2) {
  const TemporaryFolder own;
  const auto folder = std::filesystem::path(group.broadcast_text(own.path().string()));
  const auto run = [&](const TrainerOptions& options) {
    AdamNet net;
    SpoiltData data(5);
    WeightAverage average({.decay = 0.9});
    Trainer trainer(options);
    trainer.add(average);
    auto result = trainer.fit(net, data, group);
    std::string averages;
    for (const auto& [name, tensor] : average.weights()) averages += std::to_string(tensor.sum().item<double>()) + " ";
    EXPECT_EQ(group.broadcast_text(averages), averages);
    return std::tuple(result.weights_digest, result.state.digest.hex(), averages, result.found);
  };
  const auto whole = run(rolling_back(folder / "whole"));
  EXPECT_EQ(std::get<3>(whole).at("rollbacks"), "3");
  auto first = rolling_back(folder / "cut");
  first.max_steps = 6;
  run(first);
  auto rest = rolling_back(folder / "cut");
  rest.snapshot.resume_from = folder / "cut/step-0000000006";
  EXPECT_EQ(run(rest), whole);
}

// What it goes back to is spoilt already.
TEST(Rollback, TenTimesEndTheRun) {
  auto group = one_rank();
  SpoiltNet net;
  {
    const torch::NoGradGuard no_grad;
    net.fc2->weight[1][1] = std::nanf("");
  }
  const auto text = failure_of(net, group, ErrorKind::kRecipe, kNobody,
                               {.max_epochs = 9, .guard = {.on_nonfinite = OnNonfinite::kRollback}});
  EXPECT_TRUE(has(text, "the gradient of training step 11 ")) << text;
  EXPECT_TRUE(has(text, "the run has gone back 10 times already: the weight fc2.weight")) << text;
}

}  // namespace
}  // namespace lockstep
