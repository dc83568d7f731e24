// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/sanity_check.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/train/evaluation.h"
#include "lockstep/train/pass_checks.h"

namespace lockstep {
namespace {

constexpr const char* kTrainLoss = "train_loss";

// Saves the random generators and the buffers of a module, and restores them.
class Before {
 public:
  Before(const Module& module, const c10::Device& device) {
    const torch::NoGradGuard no_grad;
    generators_.push_back({at::Generator(at::detail::getDefaultCPUGenerator()), {}});
    if (!device.is_cpu()) generators_.push_back({at::Generator(at::globalContext().defaultGenerator(device)), {}});
    for (auto& [generator, state] : generators_) state = generator.get_state();
    for (const auto& buffer : module.buffers()) {
      if (buffer.defined()) buffers_.emplace_back(buffer, buffer.clone());
    }
  }

  void put_back() {
    const torch::NoGradGuard no_grad;
    for (auto& [generator, state] : generators_) generator.set_state(state);
    for (auto& [buffer, values] : buffers_) buffer.copy_(values);
  }

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

std::unique_ptr<Loader> first_batch(const Loader& loader) {
  return first_samples(loader, loader.options().global_batch);
}

bool gives(const std::set<std::string>& names, const Monitor& monitor) { return names.contains(monitor.metric); }

}  // namespace

SanityCheck::SanityCheck(TrainedModel& model, const TrainingData& data, ForwardPass& forward,
                         const StepOptions& options)
    : model_(model), data_(data), forward_(forward), precision_(options.precision) {}

void SanityCheck::run(const std::vector<Monitor>& monitors) {
  Names names = {kTrainLoss};
  if (data_.validation() != nullptr) names.merge(validate_batch());
  // Only some ranks may have listeners, but all ranks must run the batch.
  const bool has_all = std::ranges::all_of(monitors, [&](const auto& each) { return gives(names, each); });
  const auto missing = model_.group().all_gather(has_all ? 0 : 1);
  if (std::ranges::none_of(missing, [](auto each) { return each != 0; })) return;
  names.merge(train_batch());
  on_every_rank(model_.group(), [&] { require(monitors, names); });
}

SanityCheck::Names SanityCheck::validate_batch() {
  auto& group = model_.group();
  auto& module = model_.module();
  Names names;
  leave_no_trace([&] {
    std::exception_ptr failure;
    try {
      const auto loader = first_batch(*data_.validation());
      validate_batches(module, *loader, loader->source().size(), precision_);
    } catch (...) {
      failure = std::current_exception();
      if (is_peer_lost(failure)) throw;
    }
    rethrow_on_every_rank(group, failure);
    const auto means = module.metrics().over_ranks(group);
    for (const auto& [name, value] : means) names.insert(name);
    for (const auto& [name, value] : module.on_validation_end(group, means)) names.insert(name);
  });
  return names;
}

SanityCheck::Names SanityCheck::train_batch() {
  auto& group = model_.group();
  auto& module = model_.module();
  Names names;
  leave_no_trace([&] {
    std::exception_ptr failure;
    try {
      module.train();
      const auto loader = first_batch(data_.train());
      const auto batch = to_device(*loader->next(), group.device().device);
      if (const auto* runs = forward_.batch_to_run(batch)) {
        forward_.seed(0, 0);
        module.metrics().begin_batch(batch.samples());
        forward_.loss(*runs, {});
      }
    } catch (...) {
      failure = std::current_exception();
      if (is_peer_lost(failure)) throw;
    }
    rethrow_on_every_rank(group, failure);
    for (const auto& [name, value] : module.metrics().over_ranks(group)) names.insert(name);
  });
  return names;
}

// After an exception the training ends, so nothing needs to be restored.
void SanityCheck::leave_no_trace(const std::function<void()>& work) {
  auto& module = model_.module();
  Before before(module, model_.group().device().device);
  auto metrics = std::exchange(module.metrics(), {});
  work();
  module.metrics() = std::move(metrics);
  module.train();
  before.put_back();
}

void SanityCheck::require(const std::vector<Monitor>& monitors, const Names& names) {
  const auto lost = std::ranges::find_if(monitors, [&](const auto& each) { return !gives(names, each); });
  if (lost == monitors.end()) return;
  throw Error(ErrorKind::kRecipe,
              lost->who + " waits for '" + lost->metric + "', and this training gives " +
                  joined(std::vector<std::string>(names.begin(), names.end()), ", "),
              data_.validation() != nullptr
                  ? "name one of them"
                  : "name one of them, or let it validate: data.split makes a validation set, and "
                    "trainer.validate_every is the epochs between validations");
}

}  // namespace lockstep
