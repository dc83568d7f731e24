// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <torch/torch.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

#include "lockstep/base/error.h"
#include "lockstep/comm/join.h"
#include "lockstep/models/network.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/task/classifier.h"
#include "tests/support/fake_device.h"

// Prints what the host does for one replayed step of a small convolutional network, in microseconds of the whole
// process's CPU time: all of a step but the driver's part and the device's, whose place a device takes that does
// nothing.
//
//     host_step STEPS BATCH kept|sent

namespace {

using namespace lockstep;

struct Nothing : StepGraph {
  void capture(const std::function<void()>& work) override { work(); }
  void replay() override {}
};

struct NoCopies : CopyStream {
  std::vector<at::Tensor> send(const std::vector<at::Tensor>& host) override { return host; }
  void receive(const std::vector<at::Tensor>&) override {}
};

struct IdleDevice : testing::FakeBackend {
  IdleDevice() : FakeBackend(1) {}
  std::unique_ptr<CopyStream> copy_stream(int) const override { return std::make_unique<NoCopies>(); }
  std::unique_ptr<StepGraph> step_graph(int) const override { return std::make_unique<Nothing>(); }
};

// A data set in memory, with images of the size of MNIST's.
struct Images : SampleSource {
  std::int64_t size() const override { return 60'000; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return "image " + std::to_string(id); }
  bool is_in_memory() const override { return true; }
  std::optional<FixedSamples> fixed() const override { return itself(); }
  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const std::int64_t label = key.id % 10;
    std::memcpy(to[0], pixels_.data() + key.id * kBytes, kBytes);
    std::memcpy(to[1], &label, sizeof(label));
  }

 private:
  static constexpr std::int64_t kBytes = 28 * 28;
  std::vector<std::byte> pixels_ = std::vector<std::byte>(static_cast<std::size_t>(60'000 * kBytes));
  std::vector<Field> fields_ = {{"input", "U8", {1, 28, 28}}, {"target", "I64", {}}};
};

struct Data : DataModule {
  explicit Data(std::int64_t batch_) : batch(batch_) {}
  void prepare_data() override {}
  void setup() override {}
  std::unique_ptr<Loader> train_loader(Shard shard) override {
    const LoaderOptions options{.global_batch = batch, .shard = shard, .seed = 5, .drop_last = true};
    return std::make_unique<Loader>(std::make_shared<Images>(), options);
  }
  std::unique_ptr<Loader> validation_loader(Shard) override { return nullptr; }

  std::int64_t batch;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The measurement begins at the step from which on all steps are replayed.
struct Span : Listener {
  std::string name() const override { return "span"; }
  Verdict on(const StepEnded& event) override {
    if (event.step == kFirst) began = cpu_seconds();
    return Verdict::kContinue;
  }
  Verdict on(const RunEnded& event) override {
    std::cout << 1e6 * (cpu_seconds() - began) / static_cast<double>(event.step - kFirst) << std::endl;
    return Verdict::kContinue;
  }

  static constexpr std::int64_t kFirst = 100;
  double began = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: host_step STEPS BATCH kept|sent" << std::endl;
    return exit_code(ErrorKind::kUsage);
  }
  at::set_num_threads(1);
  torch::manual_seed(7);
  const NetworkOptions network{.name = "cnn", .input_shape = {1, 28, 28}, .classes = 10};
  TaskOptions task;
  task.optimizer = {.name = "sgd", .lr = 0.01, .momentum = 0.9};
  task.is_recordable = true;
  Classifier module(make_network(network), network.classes, task);
  Data data(std::atoll(argv[2]));
  TrainerOptions options{.max_epochs = 0, .max_steps = std::atoll(argv[1])};
  options.step.device.graph = Toggle::kOn;
  options.step.device.keep_data = std::string(argv[3]) == "kept" ? Toggle::kOn : Toggle::kOff;
  const IdleDevice device;
  auto group = alone({.facts = device.devices().front(), .visible = 1, .backend = &device});
  Trainer trainer(options);
  Span span;
  trainer.add(span);
  trainer.fit(module, data, group);
  return 0;
}
