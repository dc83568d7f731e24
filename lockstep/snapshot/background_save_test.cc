// SPDX-License-Identifier: Apache-2.0
#include "lockstep/snapshot/background_save.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(64, 64));
    norm = register_module("norm", torch::nn::BatchNorm1d(64));
  }
  torch::nn::Linear first = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
};

class BackgroundSaveTest : public ::testing::Test {
 protected:
  SnapshotContent content(std::int64_t step) {
    return shared_content_of(net_, optimizer_, {.step = step}, {{"own.sum", average_, true}});
  }
  void update() {
    const auto x = torch::randn({8, 64});
    net_.norm(net_.first(x)).pow(2).sum().backward();
    optimizer_.step();
    optimizer_.zero_grad();
    average_.add_(1);
  }
  /// Returns the weights that a snapshot holds.
  std::string digest_in(const fs::path& snapshot) {
    Net net;
    torch::optim::AdamW optimizer(net.parameters());
    restore_snapshot(snapshot, net, optimizer);
    return weights_digest(net);
  }

  testing::TemporaryFolder folder_;
  const fs::path snapshots_ = folder_.path() / "snapshots";
  Net net_;
  torch::optim::AdamW optimizer_{net_.parameters()};
  at::Tensor average_ = at::zeros({1000});
};

TEST_F(BackgroundSaveTest, WritesWhatWasThereWhenItBegan) {
  BackgroundSave save(snapshots_);
  for (std::int64_t step = 1; step <= 5; ++step) {
    update();
    const auto wanted = weights_digest(net_);
    const auto average = average_.clone();
    save.begin(content(step), {});
    save.wait_for_copy();
    update();
    const auto end = save.wait();
    ASSERT_TRUE(end);
    ASSERT_FALSE(end->error);
    EXPECT_EQ(end->step, step);
    verify_snapshot(end->written.path);
    EXPECT_EQ(digest_in(end->written.path), wanted);
    EXPECT_TRUE(extension_tensors(end->written.path).at("own.sum").equal(average));
    EXPECT_FALSE(save.ended()) << "each end is told once";
  }
}

TEST_F(BackgroundSaveTest, WritesTheBytesThatAnOrdinarySaveWrites) {
  update();
  const auto ordinary =
      write_snapshot(folder_.path() / "ordinary", content_of(net_, optimizer_, {.step = 7}, {{"own.sum", average_}}));
  BackgroundSave save(snapshots_);
  save.prepare(content(7));
  save.begin(content(7), {});
  const auto end = save.wait();
  ASSERT_TRUE(end && !end->error);
  EXPECT_EQ(end->written.bytes, ordinary.bytes);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "extensions.safetensors", "state.json"}) {
    const auto bytes = [&](const fs::path& snapshot) {
      std::ifstream file(snapshot / name, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    EXPECT_EQ(bytes(end->written.path), bytes(ordinary.path)) << name;
  }
}

TEST_F(BackgroundSaveTest, CopiesAtOnceWhatAForwardPassChanges) {
  update();
  BackgroundSave save(snapshots_);
  const auto all = content(1);
  for (const auto& each : all.model) {
    EXPECT_EQ(each.is_shared, each.name.find("running_") == std::string::npos && !each.name.ends_with("tracked"))
        << each.name;
  }
  const auto mean = net_.norm->running_mean.clone();
  save.begin(all, {});
  net_.norm(torch::ones({8, 64}) * 50);
  const auto end = save.wait();
  Net net;
  torch::optim::AdamW optimizer(net.parameters());
  restore_snapshot(end->written.path, net, optimizer);
  EXPECT_TRUE(net.norm->running_mean.equal(mean));
}

TEST_F(BackgroundSaveTest, TellsWhyNothingWasWrittenAndGoesOn) {
  std::ofstream(snapshots_) << "a file in the folder's place";
  BackgroundSave save(snapshots_);
  save.begin(content(1), {});
  const auto end = save.wait();
  ASSERT_TRUE(end && end->error);
  EXPECT_THROW(std::rethrow_exception(end->error), Error);
  fs::remove(snapshots_);
  save.begin(content(2), {});
  const auto later = save.wait();
  EXPECT_FALSE(later->error);
  EXPECT_EQ(later->written.path.filename(), "step-0000000002");
}

TEST_F(BackgroundSaveTest, EndsItsWorkBeforeItGoes) {
  {
    BackgroundSave save(snapshots_);
    save.begin(content(3), {});
  }
  verify_snapshot(snapshots_ / "step-0000000003");
}

}  // namespace
}  // namespace lockstep
