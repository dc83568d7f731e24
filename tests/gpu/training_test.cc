// SPDX-License-Identifier: Apache-2.0
#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>

#include "lockstep/base/file.h"
#include "lockstep/data/source/synthetic_source.h"
#include "lockstep/device/out_of_memory.h"
#include "lockstep/format/snapshot/snapshot_names.h"
#include "lockstep/models/network.h"
#include "lockstep/models/script_network.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/profiler_trace.h"
#include "lockstep/train/task/classifier.h"
#include "tests/support/gpu.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::on_gpu;
using testing::TemporaryFolder;

// A data set of small images in batches of 32. The last batch of an epoch is smaller.
struct Images : DataModule {
  void prepare_data() override {}
  void setup() override {}
  std::unique_ptr<Loader> train_loader(Shard shard) override {
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = batch, .shard = shard, .seed = 5});
  }
  std::unique_ptr<Loader> validation_loader(Shard shard) override {
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = 100, .shard = shard, .shuffle = false});
  }

  std::int64_t batch = 32;
  std::shared_ptr<const SampleSource> source =
      synthetic_source({.samples = 500, .classes = 4, .shape = {1, 16, 16}, .seed = 3});
};

std::unique_ptr<Classifier> cnn(const std::string& optimizer = "sgd", const std::string& name = "cnn") {
  torch::manual_seed(7);
  const NetworkOptions network{.name = name, .input_shape = {1, 16, 16}, .classes = 4};
  TaskOptions task;
  task.optimizer = {.name = optimizer, .lr = 0.02, .momentum = 0.9};
  task.is_recordable = true;
  return std::make_unique<Classifier>(make_network(network), 4, task);
}

// Returns the losses on rank 0, step by step.
struct Losses : Listener {
  std::string name() const override { return "losses"; }
  Verdict on(const StepEnded& event) override {
    if (event.loss) values.push_back(*event.loss);
    return Verdict::kContinue;
  }
  std::vector<double> values;
};

struct Run {
  FitResult result;
  std::vector<double> losses;
};

Run run(Group group, const TrainerOptions& options, const std::string& optimizer = "sgd") {
  Images data;
  const auto module = cnn(optimizer);
  Trainer trainer(options);
  Losses losses;
  trainer.add(losses);
  auto result = trainer.fit(*module, data, group);
  return {std::move(result), std::move(losses.values)};
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "step " << i + 1;
}

TEST(GpuTraining, FollowsTheCpusLosses) {
  REQUIRE_GPU();
  for (const char* optimizer : {"sgd", "adamw"}) {
    const TrainerOptions options{.max_epochs = 0, .max_steps = 100, .log_every = 1};
    const auto gpu = run(on_gpu(), options, optimizer);
    const auto cpu = run(alone(), options, optimizer);
    expect_near(gpu.losses, cpu.losses, 1e-4);
    EXPECT_EQ(gpu.result.state.digest.hex(), cpu.result.state.digest.hex());
    EXPECT_NEAR(gpu.result.state.metrics.at("val_accuracy"), cpu.result.state.metrics.at("val_accuracy"), 0.01);
  }
}

TEST(GpuTraining, ReplayedStepsGiveTheSameBitsAsPlainOnes) {
  REQUIRE_GPU();
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  for (const char* optimizer : {"sgd", "adamw"}) {
    for (const auto precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
      TrainerOptions options{.max_epochs = 4, .log_every = 5, .step = {.precision = precision}};
      options.step.device = {.graph = Toggle::kOff, .keep_data = Toggle::kOff, .deterministic = true};
      const auto plain = run(on_gpu(), options, optimizer);
      options.step.device.graph = options.step.device.keep_data = Toggle::kOn;
      const auto replayed = run(on_gpu(), options, optimizer);
      EXPECT_EQ(plain.result.weights_digest, replayed.result.weights_digest)
          << optimizer << " " << precision_name(precision);
      EXPECT_EQ(plain.losses, replayed.losses);
      EXPECT_EQ(replayed.result.found.at("graph"), "whole steps are replayed: trainer.graph is on");
      EXPECT_HAS(replayed.result.found.at("training data"), "kept on the device");
    }
  }
}

TEST(GpuTraining, AnExportedModelIsReplayedToo) {
  REQUIRE_GPU();
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const TemporaryFolder folder;
  torch::manual_seed(7);
  torch::jit::Module model("Model");
  model.register_parameter("kernels", (at::randn({8, 1, 3, 3}) * 0.3).set_requires_grad(true), /*is_buffer=*/false);
  model.register_parameter("weight", (at::randn({8 * 14 * 14, 4}) * 0.02).set_requires_grad(true), false);
  model.define(R"(
def forward(self, x):
    return torch.mm(torch.relu(torch.conv2d(x, self.kernels)).flatten(1), self.weight)
)");
  model.save(folder.path() / "model.pt");
  const auto trained = [&](Toggle graph) {
    Images data;
    TaskOptions task;
    task.optimizer = {.name = "adamw", .lr = 0.01};
    const auto network = make_script_network(folder.path() / "model.pt", {.input_shape = {1, 16, 16}, .classes = 4});
    Classifier module(network, 4, task);
    TrainerOptions options{.max_epochs = 4, .log_every = 5};
    options.step.device = {.graph = graph, .deterministic = true};
    auto group = on_gpu();
    return Trainer(options).fit(module, data, group);
  };
  const auto replayed = trained(Toggle::kOn);
  EXPECT_EQ(replayed.weights_digest, trained(Toggle::kOff).weights_digest);
  EXPECT_EQ(replayed.found.at("graph"), "whole steps are replayed: trainer.graph is on");
}

TEST(GpuTraining, AStepThatDrawsOnTheHostIsNotReplayed) {
  REQUIRE_GPU();
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  struct Drawing : Classifier {
    using Classifier::Classifier;
    at::Tensor training_step(const Batch& batch) override {
      return Classifier::training_step(batch) * at::rand({});  // An argument of the kernel.
    }
  };
  const auto trained = [](Toggle graph) {
    Images data;
    torch::manual_seed(7);
    TaskOptions task;
    task.is_recordable = true;
    Drawing module(make_network({.name = "cnn", .input_shape = {1, 16, 16}, .classes = 4}), 4, task);
    TrainerOptions options{.max_epochs = 8};
    options.step.device = {.graph = graph, .deterministic = true};
    auto group = on_gpu();
    return Trainer(options).fit(module, data, group);
  };
  const auto tried = trained(Toggle::kAuto);
  EXPECT_EQ(tried.found.at("graph"), "steps are not replayed: it draws random numbers on the host");
  EXPECT_EQ(tried.weights_digest, trained(Toggle::kOff).weights_digest);
}

TEST(GpuTraining, ATraceHoldsKernelsOfPlainAndReplayedSteps) {
  REQUIRE_GPU();
  const TemporaryFolder folder;
  for (const auto graph : {Toggle::kOff, Toggle::kOn}) {
    const auto file = folder.path() / (graph == Toggle::kOn ? "on" : "off") / "rank-0000.pt.trace.json";
    auto group = on_gpu();
    ProfilerTrace trace({.first = 50, .last = 52, .file = file, .device = group.device()}, Log());
    Images data;
    const auto module = cnn();
    TrainerOptions options{.max_epochs = 4};
    options.step.device.graph = graph;
    Trainer trainer(options);
    trainer.add(trace);
    trainer.fit(*module, data, group);
    const std::string text = text_of_file(file);
    EXPECT_HAS(text, "\"ProfilerStep#52\"");
    EXPECT_HAS(text, "\"cat\": \"kernel\"");
  }
}

TEST(GpuTraining, SaysWhichWayOfMakingStepsWasFaster) {
  REQUIRE_GPU();
  const auto found = run(on_gpu(), {.max_epochs = 8}).result.found;
  EXPECT_HAS(found.at("graph"), "one operation at a time");
}

TEST(GpuTraining, ASnapshotGoesOnBitForBitAndLoadsOnACpu) {
  REQUIRE_GPU();
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const TemporaryFolder folder;
  TrainerOptions options{.max_epochs = 0, .max_steps = 60, .log_every = 10};
  options.step.device.deterministic = true;
  options.snapshot = {.folder = folder.path() / "whole", .every_epochs = 0};
  const auto whole = run(on_gpu(), options, "adamw");
  options.max_steps = 30;
  options.snapshot.folder = folder.path() / "parts";
  run(on_gpu(), options, "adamw");
  options.max_steps = 60;
  options.snapshot.resume_from = folder.path() / "parts" / "step-0000000030";
  const auto parts = run(on_gpu(), options, "adamw");
  EXPECT_EQ(whole.result.weights_digest, parts.result.weights_digest);

  const auto on_cpu = cnn("adamw");
  restore_weights(folder.path() / "whole" / "step-0000000060", *on_cpu);
  EXPECT_EQ(weights_digest(*on_cpu), whole.result.weights_digest);
}

// Each save is copied while the next step runs, plain or replayed. It must hold the weights of its own step.
TEST(GpuTraining, SnapshotsOfEachStepHoldThatStepsWeights) {
  REQUIRE_GPU();
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  for (const auto graph : {Toggle::kOff, Toggle::kOn}) {
    const TemporaryFolder folder;
    TrainerOptions options{.max_epochs = 0, .max_steps = 20};
    options.step.device = {.graph = graph, .deterministic = true};
    options.snapshot = {.folder = folder.path() / "each", .every_epochs = 0, .every_steps = 1, .keep = 0};
    run(on_gpu(), options, "adamw");
    for (const std::int64_t step : {14, 17, 19}) {
      TrainerOptions alone = options;
      alone.max_steps = step;
      alone.snapshot = {.folder = folder.path() / std::to_string(step), .every_epochs = 0};
      const auto wanted = run(on_gpu(), alone, "adamw").result.weights_digest;
      const auto on_cpu = cnn("adamw");
      restore_weights(folder.path() / "each" / snapshot_name(step), *on_cpu);
      EXPECT_EQ(weights_digest(*on_cpu), wanted) << step;
    }
  }
}

TEST(GpuTraining, ABatchThatDoesNotFitIsAnsweredWithOneThatDoes) {
  REQUIRE_GPU();
  struct Wasteful : Classifier {
    using Classifier::Classifier;
    at::Tensor training_step(const Batch& batch) override {
      const auto options = at::TensorOptions(batch.input().device()).dtype(at::kByte);
      const auto waste = at::empty({batch.samples() * (std::int64_t{4} << 30)}, options);
      return Classifier::training_step(batch);
    }
  };
  auto group = on_gpu();
  torch::manual_seed(7);
  Wasteful module(make_network({.name = "cnn", .input_shape = {1, 16, 16}, .classes = 4}), 4);
  Images data;
  data.batch = 500;
  const auto text =
      message_of(ErrorKind::kEnvironment, [&] { Trainer(TrainerOptions{.max_epochs = 1}).fit(module, data, group); });
  EXPECT_HAS(text, "a batch of 500 does not fit into the memory of");
  EXPECT_HAS(text, "would fit: --set data.batch=");
}

TEST(GpuTraining, RanksThatShareAGpuGiveWhatOneRankGives) {
  REQUIRE_GPU();
  TrainerOptions options{.max_epochs = 1, .log_every = 1};
  if (!testing::is_rank()) {
    testing::expect_of_ranks({.world = 2, .variables = {{"CUDA_VISIBLE_DEVICES", "0"}}});
    return;
  }
  testing::begin_rank();
  auto group = join({.accelerator = Accelerator::kGpu, .share_device = true});
  EXPECT_TRUE(group.shares_device());
  const auto rank = group.rank();
  const auto together = run(std::move(group), options);
  if (rank == 0) expect_near(together.losses, run(on_gpu(), options).losses, 1e-4);
}

TEST(GpuTraining, TwoRanksOnOneGpuAreRefusedUnlessTheyMay) {
  REQUIRE_GPU();
  if (!testing::is_rank()) {
    testing::expect_of_ranks({.world = 2, .variables = {{"CUDA_VISIBLE_DEVICES", "0"}}});
    return;
  }
  testing::begin_rank();
  const auto text = message_of(ErrorKind::kEnvironment, [] { join({.accelerator = Accelerator::kGpu}); });
  EXPECT_HAS(text, "ranks 0, 1 compute on one device, ");
  EXPECT_HAS(text, "started 2 tasks on this node");
}

}  // namespace
}  // namespace lockstep
