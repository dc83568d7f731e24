// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/plain_backward.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The mark belongs to the process and not to a thread, since the autograd engine computes gradients in its own threads.
// One backward pass may reach several modules.
std::atomic<int>& averaged_passes() {
  static std::atomic<int> count{0};
  return count;
}

class Hook final : public torch::autograd::FunctionPostHook {
 public:
  explicit Hook(std::string name) : name_(std::move(name)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& /*inputs*/) override {
    if (averaged_passes() > 0) return outputs;
    throw Error(
        ErrorKind::kUsage,
        "'" + name_ + "' got a gradient from a plain loss.backward(), which averages nothing: ranks would drift apart",
        "call ddp.backward(loss, samples) in its place; for other passes destroy the DistributedDataParallel "
        "first, or set DataParallelOptions::permits_plain_backward");
  }

 private:
  std::string name_;
};

}  // namespace

AveragedBackward::AveragedBackward() { ++averaged_passes(); }
AveragedBackward::~AveragedBackward() { --averaged_passes(); }

PlainBackwardGuard::PlainBackwardGuard(const std::vector<NamedTensor>& parameters) {
  for (const auto& each : parameters) {
    auto accumulator = torch::autograd::impl::grad_accumulator(each.tensor);
    const auto key = accumulator->add_post_hook(std::make_unique<Hook>(each.name));
    hooks_.emplace_back(std::move(accumulator), key);
  }
}

PlainBackwardGuard::~PlainBackwardGuard() {
  for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

}  // namespace lockstep
