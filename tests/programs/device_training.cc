// SPDX-License-Identifier: Apache-2.0
// A training of two ranks on pretended devices, which the program starts itself and heals. If RANK is set, it is one of
// as many ranks as another launcher has started.
//
//     device_training RUN_DIR auto|on|off EPOCHS [RANK:STEP:PLACE…]
//
// Each RANK:STEP:PLACE kills that rank once, in forward, in backward, or after the update, and not before the ranks
// have met again after the death before it: two dead ranks of two have lost the state. Rank 0 writes the weights'
// digest to RUN_DIR/result.
//
// The pretended collectives behave as NCCL's between devices of one node: a lost peer is no error. The host goes on,
// the sums are wrong, and the device never finishes its work until the collectives are ended.
#include <torch/torch.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/text.h"
#include "lockstep/comm/collective_maker.h"
#include "lockstep/comm/gloo/mesh.h"
#include "lockstep/comm/join_device.h"
#include "lockstep/launch/local/launcher.h"
#include "lockstep/lockstep.h"
#include "lockstep/watch/page.h"
#include "tests/support/fake_device.h"

namespace {

using namespace lockstep;

std::atomic<bool> is_hung = false;

/// Kills this process at the moments that the command line names, each of them once and in their order.
struct Kills {
  std::filesystem::path folder;
  std::vector<std::string> all;
  int rank = 0;
  std::size_t when_met = 0;  ///< How many had been done when the ranks last met.

  std::size_t done() const {
    std::size_t count = 0;
    while (std::filesystem::exists(folder / ("killed-" + std::to_string(count)))) ++count;
    return count;
  }
  void at(std::int64_t step, const char* place) const {
    const auto next = done();
    const auto now = std::to_string(rank) + ":" + std::to_string(step) + ":" + place;
    if (next != when_met || next == all.size() || all[next] != now) return;
    std::ofstream(folder / ("killed-" + std::to_string(next))) << now;
    std::raise(SIGKILL);
  }
};

struct Ended : c10d::Work {
  explicit Ended(std::vector<at::Tensor> tensors)
      : future(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
    future->markCompleted(c10::IValue(std::move(tensors)));
  }
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future; }
  c10::intrusive_ptr<c10::ivalue::Future> future;
};

struct LikeNccl : c10d::Backend {
  explicit LikeNccl(const CollectiveRequest& request) : Backend(request.rank, request.world) {
    const Placement placement{.rank = request.rank, .world = request.world};
    const auto store = c10::make_intrusive<c10d::PrefixStore>("devices", request.store);
    inner = connect_mesh({store, placement, "127.0.0.1", {request.timeout, request.timeout, request.timeout}}).group;
  }
  const std::string getBackendName() const override { return "like NCCL"; }

  // Numbers of other types are the host's own messages, which go through Gloo where devices are real.
  template <typename Call>
  c10::intrusive_ptr<c10d::Work> device_work(std::vector<at::Tensor>& tensors, Call call) {
    const bool is_hosts = tensors.front().scalar_type() != at::kFloat;
    try {
      if (!is_hosts && is_hung) throw std::runtime_error("the device waits");
      const auto work = call();
      work->wait();
      return work;
    } catch (const std::exception&) {
      if (is_hosts) throw;
      is_hung = true;
      // Zeros, which ask for no stop. The host of a real device could not read them at all.
      for (auto& each : tensors) each.zero_();
      return c10::make_intrusive<Ended>(tensors);
    }
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return device_work(tensors, [&] { return inner->allreduce(tensors, options); });
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return device_work(tensors, [&] { return inner->broadcast(tensors, options); });
  }

  c10::intrusive_ptr<c10d::ProcessGroup> inner;
};

struct Collectives : CollectiveMaker {
  explicit Collectives(Kills& kills_) : kills(kills_) {}
  c10::intrusive_ptr<c10d::Backend> make(const CollectiveRequest& request) const override {
    kills.when_met = kills.done();
    return c10::make_intrusive<LikeNccl>(request);
  }
  std::optional<std::string> failure(c10d::Backend&) const override { return std::nullopt; }
  void end(c10d::Backend&, bool) const noexcept override { is_hung = false; }
  Kills& kills;
};

struct HostCopies : CopyStream {
  std::vector<at::Tensor> send(const std::vector<at::Tensor>& host) override { return host; }
  void receive(const std::vector<at::Tensor>&) override {}
};

struct Device : lockstep::testing::FakeBackend {
  explicit Device(Kills& kills) : FakeBackend(1), made(kills) {}
  using FakeBackend::synchronize;
  void synchronize(int, const std::function<void()>& look) const override {
    while (is_hung) {
      if (look) look();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::function<bool()> mark(int) const override {
    return [] { return !is_hung; };
  }
  std::unique_ptr<CopyStream> copy_stream(int) const override { return std::make_unique<HostCopies>(); }
  const CollectiveMaker* collectives() const override { return &made; }
  RankDevice of(int rank) const {
    auto facts = devices().front();
    facts.uuid += "-" + std::to_string(rank);
    return {.facts = facts, .visible = 1, .backend = this};
  }
  Collectives made;
};

struct Net : Module {
  explicit Net(const Kills& kills_) : kills(kills_) {
    torch::manual_seed(11);
    net = register_module("net", torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                                                       torch::nn::Dropout(0.25), torch::nn::Linear(8, 3)));
  }
  at::Tensor training_step(const Batch& batch) override {
    const auto step = Page::own().layout().step.load();  // A process that was started again has made none itself.
    kills.at(step, "forward");
    auto out = net->forward(batch.input());
    out.register_hook([this, step](const at::Tensor&) { kills.at(step, "backward"); });
    const auto loss = at::cross_entropy_loss(out, batch.target());
    log("train_mean", loss);
    return loss;
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "adamw", .lr = 0.05});
  }
  const Kills& kills;
  torch::nn::Sequential net;
};

struct AfterUpdate : Extension {
  explicit AfterUpdate(const Kills& kills_) : kills(kills_) {}
  std::string name() const override { return "kills"; }
  void start(Module&) override {}
  void after_step(const TrainingState& state) override { kills.at(state.step - 1, "update"); }
  const Kills& kills;
};

struct Data : DataModule {
  std::unique_ptr<Loader> train_loader(Shard shard) override {
    const std::shared_ptr<const SampleSource> source =
        synthetic_source({.samples = 64, .classes = 3, .shape = {4}, .seed = 1});
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = 16, .shard = shard, .seed = 5});
  }
};

void train(const std::filesystem::path& folder, const std::string& heal, int epochs, Kills kills) {
  torch::set_num_threads(1);
  const auto env = Environment::of_process();
  const auto placement = placement_from(env);
  kills.rank = placement.rank;
  const Device device(kills);
  auto group = join_with_device(placement, env, {}, [&] { return device.of(placement.rank); });
  Net net(kills);
  AfterUpdate after(kills);
  TrainerOptions options{.max_epochs = epochs};
  options.step.heal = parse_toggle(heal, "trainer.heal");
  options.guard.compare.every_steps = 2;  // Not by the clock: where the hosts talk decides who notices a death.
  Trainer trainer(options);
  trainer.add(after);
  Data data;
  const auto result = trainer.fit(net, data, group);
  if (!group.is_main()) return;
  const auto healings = result.state.numbers.find("run.healings");
  std::ofstream(folder / "result") << result.weights_digest << " " << result.state.digest.hex() << " "
                                   << (healings == result.state.numbers.end() ? 0 : healings->second) << "\n";
}

int run(const std::vector<std::string>& words) {
  const std::filesystem::path folder = words[1];
  const auto env = Environment::of_process();
  if (!env.get("RANK")) {
    LocalJob job{.command = words, .ranks = 2, .owns_store = true, .run_dir = folder};
    job.healing = HealingLimits{.most = 1000, .window = std::chrono::milliseconds(0)};
    return run_local(job, env, Log(2, "lockstep: "));
  }
  train(folder, words[2], std::stoi(words[3]), {.folder = folder, .all = {words.begin() + 4, words.end()}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    return run({argv, argv + argc});
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
