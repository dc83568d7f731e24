// SPDX-License-Identifier: Apache-2.0
// Ranks whose collective library never returns: endless_collective wait|call LIMIT_S. After some steps every all-reduce
// waits without end, in its wait() or already in its call, and no time limit of the library's ends it.
#include <torch/torch.h>

#include <condition_variable>
#include <iostream>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "lockstep/comm/data_parallel.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/comm/join.h"
#include "lockstep/launch/stop_signals.h"

namespace {

[[noreturn]] void wait_for_ever() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (true) never.wait(lock);
}

class EndlessWork : public c10d::Work {
 public:
  EndlessWork() : Work(-1, c10d::OpType::ALLREDUCE) {}
  bool wait(std::chrono::milliseconds) override { wait_for_ever(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_ =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
};

class EndlessBackend : public c10d::Backend {
 public:
  EndlessBackend(int rank, int world, bool in_call) : Backend(rank, world), in_call_(in_call) {}
  const std::string getBackendName() const override { return "endless"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    if (in_call_) wait_for_ever();
    return running_.emplace_back(c10::make_intrusive<EndlessWork>());
  }

 private:
  bool in_call_;
  std::vector<c10::intrusive_ptr<c10d::Work>> running_;  // A library holds its works until they have ended.
};

void run(const std::string& where, int limit_s) {
  const lockstep::StopSignals signals;
  auto world = lockstep::join({.collective_timeout = std::chrono::seconds(limit_s)});
  auto& process = *world.impl().process;
  torch::nn::Linear net(4, 2);
  lockstep::DistributedDataParallel ddp(*net, world);
  for (int step = 0;; ++step) {
    if (step == 20) {
      std::cerr << "the collective library hangs from here on\n";
      process.setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                         c10::make_intrusive<EndlessBackend>(world.rank(), world.world(), where == "call"));
      process.setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    }
    ddp.backward(net->forward(torch::ones({3, 4})).sum(), 3);
    net->zero_grad();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    run(argv[1], std::stoi(argv[2]));
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
