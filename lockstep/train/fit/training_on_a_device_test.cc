// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/join.h"
#include "lockstep/data/source/synthetic_source.h"
#include "lockstep/device/out_of_memory.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/models/script_network.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/pretended_device.h"
#include "tests/support/ranks.h"
#include "tests/support/recorded_ops.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watched_device.h"

TORCH_LIBRARY_IMPL(_, Fake, library) { lockstep::testing::register_recorded_ops(library); }

namespace lockstep {
namespace {

using testing::message_of;
using testing::Pretended;
using testing::Story;

struct Net : Module {
  explicit Net(std::string optimizer = "adamw") : optimizer_name(std::move(optimizer)) {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
  }
  at::Tensor training_step(const Batch& batch) override {
    if (story != nullptr) story->push_back("step " + std::to_string(batch.samples()));
    if (--steps_to_failure == 0) {
      // As c10/cuda/CUDAException.cpp has it.
      const std::string advice = "\nCUDA kernel errors might be asynchronously reported at some other API call";
      throw c10::Error({__func__, __FILE__, __LINE__}, "CUDA error: " + failure + advice);
    }
    if (batch.samples() > most && is_scripted) {
      throw std::runtime_error(
          "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call "
          "last):\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n");
    }
    if (batch.samples() > most) {
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "CUDA out of memory. Tried to allocate 2.00 GiB.");
    }
    const auto hidden = torch::dropout(torch::tanh(fc1(batch.input())), 0.25, is_training());
    const auto loss = at::cross_entropy_loss(fc2(hidden), batch.target());
    log("train_mean", loss);
    return loss;
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = optimizer_name, .lr = 0.05, .momentum = 0.9});
  }
  ScheduleOptions configure_schedule(const TrainingPlan&) override {
    return {.schedule = ExponentialSchedule{.gamma = 0.99}, .by_step = true};
  }
  std::string why_not_recorded() const override { return {}; }

  std::string optimizer_name;
  std::int64_t most = 1 << 20;
  bool is_scripted = false;           ///< Then exceptions lose their type, as those of TorchScript do.
  std::int64_t steps_to_failure = 0;  ///< The device gives out then. 0 for never.
  std::string failure = "unspecified launch failure";
  Story* story = nullptr;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
};

// 22 samples in batches of 4: the last batch of an epoch has only 2.
struct Data : DataModule {
  void prepare_data() override {}
  void setup() override {}
  std::unique_ptr<Loader> train_loader(Shard shard) override {
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = batch, .shard = shard, .seed = 5});
  }
  std::unique_ptr<Loader> validation_loader(Shard) override { return nullptr; }

  std::int64_t batch = 4;
  std::shared_ptr<const SampleSource> source = synthetic_source({.samples = 22, .classes = 3, .shape = {4}, .seed = 1});
};

FitResult fitted(Net& net, Group group, TrainerOptions options, std::int64_t batch = 4) {
  Data data;
  data.batch = batch;
  return Trainer(options).fit(net, data, group);
}

void expect_same(const FitResult& a, const FitResult& b) {
  EXPECT_EQ(a.weights_digest, b.weights_digest);
  EXPECT_EQ(a.state.digest.hex(), b.state.digest.hex());
  EXPECT_EQ(a.state.metrics, b.state.metrics);
}

TEST(TrainingOnADevice, SendsTheNextBatchWhileThisOneIsComputed) {
  const Pretended device;
  Net net;
  net.story = &device.story;
  fitted(net, device.group(), {.max_epochs = 1});
  const Story wanted = {"send 4", "receive 4", "step 4", "send 4", "receive 4", "step 4",
                        "send 4", "receive 4", "step 4", "send 4", "receive 4", "step 4",
                        "send 4", "receive 4", "step 4", "send 2", "receive 2", "step 2"};
  EXPECT_EQ(device.story, wanted) << "nothing is sent beyond the epoch's end";
}

TEST(TrainingOnADevice, SendsNothingBeyondTheLastStep) {
  const Pretended device;
  Net net;
  fitted(net, device.group(), {.max_epochs = 0, .max_steps = 2});
  EXPECT_EQ(std::count(device.story.begin(), device.story.end(), "send 4"), 2);
}

TEST(TrainingOnADevice, GivesTheSameBitsAsOnACpu) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    for (const auto precision : {Precision::kFp32, Precision::kFp16}) {
      const TrainerOptions options{.max_epochs = 3, .log_every = 4, .step = {.precision = precision, .clip_norm = 0.5}};
      const Pretended device;
      Net here(optimizer), there(optimizer);
      const auto cpu = fitted(here, alone(), options);
      expect_same(cpu, fitted(there, device.group(), options));
    }
  }
}

TEST(TrainingOnADevice, WaitsForItOnlyAtAnEpochsEnd) {
  const Pretended device;
  Net net;
  fitted(net, device.group(), {.max_epochs = 3});
  EXPECT_EQ(device.synchronisations, 3);
}

// The host makes the loss of one step infinite, so the gradient of this step is not finite. A replayed step must see it
// too.
TEST(RecordedSteps, LeaveOutAGradientThatIsNotFiniteAndNameTheStep) {
  struct Spoilt : Net {
    using Net::Net;
    at::Tensor training_step(const Batch& batch) override { return Net::training_step(batch) * factor; }
    at::Tensor factor = at::ones({});
  };
  struct SpoilAt : Extension {
    std::string name() const override { return "spoil"; }
    void start(Module&) override {}
    void after_step(const TrainingState& state) override {
      if (state.step == 15) net->factor.fill_(std::nanf(""));
      if (state.step == 15) kept = net->fc1->weight.detach().clone();
    }
    Spoilt* net = nullptr;
    at::Tensor kept;
  };
  for (const auto recorder : {Pretended::Recorder::kNone, Pretended::Recorder::kOps}) {
    const Pretended device(recorder);
    TrainerOptions options{.max_epochs = 8};
    options.step.device.graph = recorder == Pretended::Recorder::kNone ? Toggle::kOff : Toggle::kOn;
    Spoilt net;
    SpoilAt spoil;
    spoil.net = &net;
    Trainer trainer(options);
    trainer.add(spoil);
    Data data;
    auto group = device.group();
    const auto text = message_of(ErrorKind::kRecipe, [&] { trainer.fit(net, data, group); });
    EXPECT_HAS(text, "the gradient of training step 16 (epoch 2) is not finite: ");
    EXPECT_TRUE(at::equal(net.fc1->weight, spoil.kept));
  }
}

TEST(TrainingOnADevice, AnOverflowLeavesTheStepOutAsOnACpu) {
  // With this learning rate, the losses times the initial scale of 65536 exceed fp16's range at first.
  const TrainerOptions options{.max_epochs = 2, .step = {.precision = Precision::kFp16}};
  struct Steep : Net {
    using Net::Net;
    at::Tensor training_step(const Batch& batch) override { return Net::training_step(batch) * 50; }
  };
  const Pretended device;
  Steep here("adam"), there("adam");
  const auto cpu = fitted(here, alone(), options);
  const auto gpu = fitted(there, device.group(), options);
  expect_same(cpu, gpu);
  EXPECT_LT(gpu.state.numbers.at("scaler.scale"), 65536) << "no step overflowed, so nothing was shown";
}

TEST(RecordedSteps, GiveTheSameBitsAsStepsMadeOneOperationAtATime) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    for (const auto precision : {Precision::kFp32, Precision::kFp16}) {
      TrainerOptions options{.max_epochs = 8, .log_every = 3, .step = {.precision = precision, .clip_norm = 0.5}};
      const Pretended plain, recording(Pretended::Recorder::kOps);
      Net eager(optimizer), replayed(optimizer);
      options.step.device.graph = Toggle::kOff;
      const auto wanted = fitted(eager, plain.group(), options);
      options.step.device.graph = Toggle::kOn;
      replayed.story = &recording.story;
      const auto found = fitted(replayed, recording.group(), options);
      expect_same(wanted, found);
      EXPECT_EQ(found.found.at("graph"), "whole steps are replayed: trainer.graph is on");
      const auto by_host = std::count(recording.story.begin(), recording.story.end(), "step 4");
      EXPECT_EQ(by_host, 12 + 1) << "after the recording no full step is the host's";
    }
  }
}

TEST(RecordedSteps, OfAScriptedModelGiveTheSameBits) {
  struct Scripted : Module {
    Scripted() {
      const auto file = lockstep::testing::source_root() / "tests/golden/script/tied.pt";
      net = register_module("net", make_script_network(file, {.input_shape = {1, 8, 8}, .classes = 10}));
    }
    at::Tensor training_step(const Batch& batch) override {
      return at::cross_entropy_loss(net->forward(batch.input()), batch.target());
    }
    std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
      return make_optimizer(parameters(), {.name = "adamw", .lr = 0.01});
    }
    std::string why_not_recorded() const override { return net->why_not_recorded(); }
    std::shared_ptr<Network> net;
  };
  Data data;
  data.source = synthetic_source({.samples = 22, .classes = 10, .shape = {1, 8, 8}, .seed = 1});
  TrainerOptions options{.max_epochs = 8, .log_every = 3};
  const Pretended plain, recording(Pretended::Recorder::kOps);
  Scripted eager, replayed;
  auto plain_group = plain.group(), group = recording.group();
  options.step.device.graph = Toggle::kOff;
  const auto wanted = Trainer(options).fit(eager, data, plain_group);
  options.step.device.graph = Toggle::kOn;
  const auto found = Trainer(options).fit(replayed, data, group);
  expect_same(wanted, found);
  EXPECT_EQ(found.found.at("graph"), "whole steps are replayed: trainer.graph is on");
}

TEST(SamplesOnTheDevice, GiveTheSameBitsAsThoseThatAreSent) {
  for (const auto graph : {Toggle::kOff, Toggle::kOn}) {
    TrainerOptions options{.max_epochs = 8, .log_every = 3};
    options.step.device.graph = graph;
    options.step.device.keep_data = Toggle::kOff;
    const Pretended sent(Pretended::Recorder::kOps), kept(Pretended::Recorder::kOps);
    Net one, other;
    const auto wanted = fitted(one, sent.group(), options);
    options.step.device.keep_data = Toggle::kOn;
    const auto found = fitted(other, kept.group(), options);
    expect_same(wanted, found);
    EXPECT_EQ(wanted.found.count("training data"), 0U);
    EXPECT_EQ(found.found.at("training data"), "kept on the device: 528 B");
  }
}

TEST(SamplesOnTheDevice, AreKeptByThemselvesWhereTheyAreFew) {
  Pretended device;
  Net net;
  device.memory_now.available = 16 * 528;
  EXPECT_EQ(fitted(net, device.group(), {.max_epochs = 1}).found.count("training data"), 1U);
  device.memory_now.available = 16 * 528 - 1;
  EXPECT_EQ(fitted(net, device.group(), {.max_epochs = 1}).found.count("training data"), 0U);
}

TEST(SamplesOnTheDevice, AreRefusedWithTheReasonWhereTheyWereAskedFor) {
  Net net;
  TrainerOptions options;
  options.step.device.keep_data = Toggle::kOn;
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { fitted(net, alone(), options); }),
             "data.on_device is on, but this rank computes on a CPU");
  struct Changing : SampleSource {
    std::int64_t size() const override { return 8; }
    const std::vector<Field>& fields() const override { return fields_; }
    std::string name_of(std::int64_t) const override { return "one"; }
    void read(const SampleKey&, std::span<std::byte* const>) const override {}
    std::vector<Field> fields_ = {{"input", "F32", {4}}, {"target", "I64", {}}};
  };
  Data data;
  data.source = std::make_shared<Changing>();
  const Pretended device;
  auto group = device.group();
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { Trainer(options).fit(net, data, group); }),
             "the training data cannot be kept there: chance changes more of a sample than which pixels are taken");
}

TEST(RecordedSteps, OneThatCannotBeIsNamedAndMadeAsBefore) {
  TrainerOptions options{.max_epochs = 4};
  const Pretended plain, broken(Pretended::Recorder::kBroken);
  Net eager, fallen_back, tried;
  options.step.device.graph = Toggle::kOff;
  const auto wanted = fitted(eager, plain.group(), options);
  options.step.device.graph = Toggle::kAuto;
  const auto found = fitted(fallen_back, broken.group(), options);
  expect_same(wanted, found);
  EXPECT_EQ(found.found.at("graph"), "steps are not replayed: operation not permitted when stream is capturing");
  options.step.device.graph = Toggle::kOn;
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { fitted(tried, broken.group(), options); }),
             "trainer.graph is on, but the step cannot be recorded: operation not permitted when stream is capturing");
}

TEST(RecordedSteps, AreRefusedOnACpuOnlyWhereTheyWereAskedFor) {
  Net net;
  TrainerOptions options;
  EXPECT_TRUE(fitted(net, alone(), options).found.empty());
  options.step.device.graph = Toggle::kOn;
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { fitted(net, alone(), options); }),
             "trainer.graph is on, but the step cannot be recorded: the device records no work");
}

TEST(OutOfMemoryInTraining, IsAnsweredWithABatchThatWouldFit) {
  Pretended device;
  device.memory_now = {.total = 1000, .available = 600, .held = 200, .peak = 500};
  Net net;
  net.most = 5;
  const auto text = message_of(ErrorKind::kEnvironment, [&] { fitted(net, device.group(), {.max_epochs = 1}, 20); });
  EXPECT_HAS(text, "a batch of 20 does not fit into the memory of Fake 9000");
  EXPECT_HAS(text, "this process can hold 800 B");
  EXPECT_HAS(text, "a batch of 5 takes");
  EXPECT_HAS(text, "--set data.batch=5");
}

// `--find batch` goes on after an error of this type.
TEST(OutOfMemoryInTraining, OfAScriptedModelIsAnsweredAlike) {
  const Pretended device;
  Net net;
  net.most = 5;
  net.is_scripted = true;
  Data data;
  data.batch = 20;
  auto group = device.group();
  try {
    Trainer({.max_epochs = 1}).fit(net, data, group);
    ADD_FAILURE() << "it fits";
  } catch (const OutOfMemory& error) {
    EXPECT_HAS(std::string(error.fact()), "a batch of 20 does not fit into the memory of Fake 9000");
    EXPECT_HAS(std::string(error.hint()), "--set data.batch=5");
  }
}

TEST(TrainingOnADevice, ThatIsDeterministicNeedsNcclsSettingsBeforeTheRanksJoin) {
  ::unsetenv("NCCL_ALGO");
  const testing::WatchedDevice device;
  auto group = device.group(std::chrono::hours(1), 2);
  TrainerOptions options;
  options.step.device.deterministic = true;
  Net net;
  Data data;
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { Trainer(options).fit(net, data, group); }),
             "deterministic is set, but the ranks have joined without NCCL_ALGO");
}

TEST(ADeviceThatGivesOut, IsNamedWithTheWayOutAndWhatWasSavedStays) {
  const testing::TemporaryFolder folder;
  TrainerOptions options{.max_epochs = 2};
  options.snapshot.folder = folder.path();
  const Pretended device;
  Net net;
  net.steps_to_failure = 8;
  const auto text = message_of(ErrorKind::kEnvironment, [&] { fitted(net, device.group(), options); });
  EXPECT_HAS(text,
             "Fake 9000 (sm_00, 16.0 GiB), 0000:00:00.0, GPU-0 has failed (CUDA error: unspecified launch failure)");
  EXPECT_HAS(text, "hint: leave this node out (--exclude) and tell its administrator; then start again with --resume");
  EXPECT_EQ(text.find("asynchronously"), std::string::npos) << text;
  EXPECT_EQ(newest_whole_snapshot(folder.path(), {})->path, folder.path() / "step-0000000006");
}

TEST(ADeviceThatGivesOut, IsAPeerErrorOnTheOtherRanks) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 2});
  testing::begin_rank();
  const bool fails = Environment::of_process().get("RANK") == "1";
  const auto text = message_of(fails ? ErrorKind::kEnvironment : ErrorKind::kPeer, [&] {
    Net net;
    if (fails) net.steps_to_failure = 3;
    fitted(net, join(), {.max_epochs = 10});
  });
  EXPECT_HAS(text, fails ? "has failed (CUDA error: unspecified launch failure)" : "rank 1 left the others: ");
}

TEST(ADeviceThatGivesOut, WithinAKernelSaysWhereToLook) {
  for (const auto& [said, wanted] :
       {std::pair{"device-side assert triggered", "most often a label or a token that"},
        {"an illegal memory access was encountered", "CUDA_LAUNCH_BLOCKING=1"},
        {"CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(`", "lockstep doctor"}}) {
    const Pretended device;
    Net net;
    net.steps_to_failure = 2;
    net.failure = said;
    const auto text = message_of(ErrorKind::kEnvironment, [&] { fitted(net, device.group(), {.max_epochs = 1}); });
    EXPECT_HAS(text, said);
    EXPECT_HAS(text, wanted);
  }
}

TEST(OutOfMemoryInTraining, OnACpuIsAnErrorToo) {
  Net net;
  net.most = 3;
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { fitted(net, alone(), {.max_epochs = 1}); }),
             "a batch of 4 does not fit into the memory of CPU");
}

}  // namespace
}  // namespace lockstep
