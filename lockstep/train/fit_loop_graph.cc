// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"
#include "lockstep/train/fit_loop.h"

namespace lockstep {

void FitLoop::plan_graph() {
  const auto& device = group_.device();
  const auto toggle = options_.step.device.graph;
  const auto& step = options_.step;
  GraphFacts facts{.accumulate = step.accumulate,
                   .finds_unused = step.parallel.find_unused_parameters,
                   .keeps_compression = step.parallel.compression.kind == Compression::kPowerSgd,
                   .update_is_fused = device_update_ != nullptr,
                   .moves_momentum = scheduler_->moves_momentum(),
                   .has_empty_parts = train_->options().global_batch < group_.world(),
                   .shares_device = group_.shares_device()};
  if (toggle != Toggle::kOff) {
    facts.device_records = !device.is_cpu() && device.backend->step_graph(device.index()) != nullptr;
    facts.module_reason = module_.why_not_recorded();
  }
  const auto reason = toggle == Toggle::kOff ? "trainer.graph is off" : why_not_recorded(facts);
  if (reason.empty()) {
    graph_plan_.emplace(toggle, plan().steps_per_epoch);
  } else if (toggle == Toggle::kOn) {
    throw Error(ErrorKind::kRecipe, "trainer.graph is on, but the step cannot be recorded: " + reason,
                "leave it at auto, which records where it can");
  } else if (!device.is_cpu()) {
    found_["graph"] = "steps are not replayed: " + reason;
  }
}

// Only batches of the full size have the shapes that were recorded.
bool FitLoop::fits_graph(const Work& work) const { return work.global_samples == train_->options().global_batch; }

bool FitLoop::step_by_graph(const Work& work) {
  auto& plan = *graph_plan_;
  if (!fits_graph(work)) {
    plan.interrupt();
    return false;
  }
  if (plan.wants_mark()) {
    group_.await_device();
    plan.mark(Clock::now());
  }
  if (plan.undecided()) decide_graph();
  switch (plan.next()) {
    case GraphPlan::Way::kEager:
      step_eagerly(work);
      break;
    case GraphPlan::Way::kRecord:
      record(work);
      break;
    case GraphPlan::Way::kReplay:
      replay(work);
      break;
  }
  plan.done();
  if (plan.is_decided()) found_["graph"] = plan.reason();
  return true;
}

// The slowest rank's times, so that all decide the same.
void FitLoop::decide_graph() {
  const auto times = *graph_plan_->undecided();
  const auto slowest = [&](double seconds) {
    const auto all = group_.all_gather(std::llround(seconds * 1e9));
    return static_cast<double>(*std::max_element(all.begin(), all.end())) / 1e9;
  };
  graph_plan_->decide({.eager_s = slowest(times.eager_s), .replay_s = slowest(times.replay_s)});
  if (graph_plan_->next() == GraphPlan::Way::kEager) graph_.reset();
}

// Makes the step, too: what was recorded is replayed at once.
void FitLoop::record(const Work& work) {
  std::string reason;
  const bool is_recorded = recorded(work, reason);
  const auto all = group_.all_gather(is_recorded ? 1 : 0);
  if (std::find(all.begin(), all.end(), 0) == all.end()) {
    graph_->replay();
    parallel_->end_replay();
    return;
  }
  graph_.reset();
  optimizer_->zero_grad();
  if (is_recorded) {
    uncount_recorded();
    reason = "another rank could not record it";
  }
  if (options_.step.device.graph == Toggle::kOn) {
    throw Error(ErrorKind::kUsage, "trainer.graph is on, but the step cannot be recorded: " + reason,
                "leave it at auto, which records where it can");
  }
  graph_plan_->refuse(reason);
  // What was broken off in the middle of a backward pass is made anew, with the same buckets.
  auto parallel = options_.step.parallel;
  if (group_.world() > 1) parallel.layout = parallel_->layout();
  parallel_.reset();
  parallel_ = std::make_unique<DistributedDataParallel>(module_, group_, parallel);
  raise_signals();
  step_eagerly(work);
}

// Counts what the host counts of a step: once, for the replay that follows.
bool FitLoop::recorded(const Work& work, std::string& reason) {
  const auto& batch = work.batches.front();
  recorded_ = work;
  for (auto& field : recorded_.batches.front().fields) field = field.clone();
  seed_step(0);
  parallel_->begin_replay(batch.samples(), work.global_samples);
  graph_ = group_.device().backend->step_graph(group_.device().index());
  const auto held = parallel_->recording();
  const DistributedDataParallel::Held recording(is_recording_, true);
  const auto loss_samples = state_.loss_samples;
  auto host = at::Generator(at::detail::getDefaultCPUGenerator());
  const auto before = host.get_state();
  try {
    graph_->capture([&] { step_eagerly(recorded_); });
    // A number drawn there is the same one in each replay, where a kernel takes it as an argument. A CPU that is
    // trained as a device draws everything there.
    if (group_.device().device.is_cpu() || at::equal(before, host.get_state())) return true;
    reason = "it draws random numbers on the host";
  } catch (const c10::Error& error) {
    reason = std::string(first_line(error.what_without_backtrace()));
  }
  if (state_.loss_samples != loss_samples) uncount_recorded();
  return false;
}

void FitLoop::uncount_recorded() {
  const auto samples = recorded_.batches.front().samples();
  state_.loss_samples -= samples;
  logged_loss_samples_ -= samples;
  module_.metrics().repeat_batch(-samples);
}

void FitLoop::replay(const Work& work) {
  const auto& batch = work.batches.front();
  auto& fields = recorded_.batches.front().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) fields[i].copy_(batch.fields[i], /*non_blocking=*/true);
  seed_device(0);  // Nothing is drawn on the host.
  parallel_->begin_replay(batch.samples(), work.global_samples);
  graph_->replay();
  state_.loss_samples += batch.samples();
  logged_loss_samples_ += batch.samples();
  module_.metrics().repeat_batch(batch.samples());
  parallel_->end_replay();
}

}  // namespace lockstep
