// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/describe_command.h"

#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/own_file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cli_train/python_start.h"
#include "lockstep/cli_train/rank_setup.h"
#include "lockstep/cli_train/recipe_data.h"
#include "lockstep/cli_train/recipe_training.h"
#include "lockstep/cli_train/step_cost.h"
#include "lockstep/comm/data_parallel.h"
#include "lockstep/train/model_failure.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWarmSteps = 3;
constexpr int kFewestSteps = 5;
constexpr double kTimedSeconds = 3;
constexpr double kLongestSeconds = 20;  ///< Limit for timed steps. A large model has few of them.

/// The time that one rank takes for a step.
struct StepSeconds {
  double forward = 0;
  double backward = 0;
  double update = 0;

  double all() const { return forward + backward + update; }
};

/// The training, set up in the same way as the trainer does it.
struct Subject {
  std::unique_ptr<NetworkTask> module;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::vector<at::Tensor> trained;
  Precision precision = Precision::kFp32;
  const RankDevice* device = nullptr;  ///< The group's.

  /// Returns the time at which the device has done all work that was launched so far.
  Clock::time_point done_at() const {
    device->backend->synchronize(device->index());
    return Clock::now();
  }
};

at::Tensor forward(const Subject& subject, const Batch& batch) {
  subject.module->metrics().begin_batch(batch.samples());
  const AutocastScope autocast(subject.precision, subject.trained[0].device());
  auto loss = naming_model_failures(
      batch, [] { return "a first step"; }, [&] { return subject.module->training_step(batch); });
  (void)loss.item<double>();
  return loss;
}

StepSeconds timed_step(const Subject& subject, const Batch& batch) {
  const auto start = subject.done_at();
  const auto loss = forward(subject, batch);
  const auto forwarded = subject.done_at();
  loss.backward();
  const auto backed = subject.done_at();
  subject.optimizer->step();
  subject.optimizer->zero_grad();
  return {seconds_between(start, forwarded), seconds_between(forwarded, backed),
          seconds_between(backed, subject.done_at())};
}

double at_share(std::vector<double> values, double share) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double median(std::vector<double> values) { return at_share(std::move(values), 0.5); }

/// The mean over ranks.
double over_ranks(Group& group, double value) {
  auto tensor = at::full({1}, value, at::kDouble);
  group.all_reduce_sum(tensor);
  return tensor.item<double>() / group.world();
}

/// Times steps with this batch on all ranks at once, so that the ranks share the machine as in a training.
Json timed_batch(const Subject& subject, const Batch& batch, Group& group) {
  for (int i = 0; i < kWarmSteps; ++i) timed_step(subject, batch);
  group.barrier();
  std::vector<double> forwards;
  std::vector<double> backwards;
  std::vector<double> updates;
  std::vector<double> all;
  const auto start = Clock::now();
  while (true) {
    const auto step = timed_step(subject, batch);
    forwards.push_back(step.forward);
    backwards.push_back(step.backward);
    updates.push_back(step.update);
    all.push_back(step.all());
    const double passed = seconds_between(start, Clock::now());
    if (passed > kLongestSeconds || (passed > kTimedSeconds && all.size() >= kFewestSteps)) break;
  }
  // Returns the spread of step times: half the distance between the 16th and the 84th percentile. So a single pause of
  // the machine does not count.
  const double spread = (at_share(all, 0.84) - at_share(all, 0.16)) / 2 / median(all);
  return {{"samples", batch.samples()},
          {"forward_s", over_ranks(group, median(forwards))},
          {"backward_s", over_ranks(group, median(backwards))},
          {"update_s", over_ranks(group, median(updates))},
          {"spread", over_ranks(group, spread)}};
}

/// Measures for each of `entries` how much time averaging adds to a step with its batch. It is the time of a whole step
/// among these ranks, minus their own work. If the same cores compute and average, all-reduces that are timed alone
/// would show too short a time.
///
/// The result is a mean and not a median. Two ranks that wait for each other on busy cores make a few long steps
/// between many short ones, and a training has both.
///
/// The gradients belong to the averaging from here on, so this comes after all else that is measured.
/// Collective: yes.
void add_averaging(Json& entries, const Subject& subject, const Batch& batch, const DataParallelOptions& options,
                   Group& group) {
  DistributedDataParallel parallel(*subject.module, group, options);
  for (auto& entry : entries) {
    const auto samples = entry.at("samples").get<std::int64_t>();
    const auto part = head(batch, samples);
    const auto step = [&] {
      parallel.backward(forward(subject, part), samples, samples * group.world());
      subject.optimizer->step();
      subject.optimizer->zero_grad();
    };
    for (int i = 0; i < kWarmSteps; ++i) step();
    group.barrier();
    const double own =
        entry.at("forward_s").get<double>() + entry.at("backward_s").get<double>() + entry.at("update_s").get<double>();
    // Each step is collective. So the count comes from the mean over ranks, which all of them know.
    const int count = std::max(kFewestSteps, static_cast<int>(kTimedSeconds / std::max(own, 1e-5)));
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) step();
    const double mean = seconds_between(start, Clock::now()) / count;
    entry["averaging_s"] = std::max(0.0, over_ranks(group, mean) - own);
  }
}

/// Adds the computation of a step of this batch, and the memory that it keeps for its backward pass.
void add_cost(Json& entry, const Subject& subject, const Batch& batch) {
  const StepCostScope scope;
  const auto loss = forward(subject, batch);
  entry["activation_bytes"] = scope.cost().live_bytes();
  const auto forward_kernels = scope.cost().kernels();
  const auto forward_products = scope.cost().products();
  entry["forward_kernels"] = forward_kernels;
  entry["forward_products"] = forward_products;
  loss.backward();
  entry["backward_kernels"] = scope.cost().kernels() - forward_kernels;
  entry["backward_products"] = scope.cost().products() - forward_products;
  entry["flops"] = scope.cost().flops();
  subject.optimizer->zero_grad();
}

/// Returns the number of bytes that the optimizer allocates in its first update.
std::int64_t optimizer_bytes(const Subject& subject, const Batch& batch) {
  const StepCostScope scope;
  forward(subject, batch).backward();
  const auto before = scope.cost().live_bytes();
  subject.optimizer->step();
  const auto after = scope.cost().live_bytes();
  subject.optimizer->zero_grad();
  return after - before;
}

/// Returns for each trained parameter its size, and how far the backward pass is when its gradient is ready.
Json gradients_of(const Subject& subject, const Batch& batch) {
  std::vector<Clock::time_point> came(subject.trained.size());
  std::vector<unsigned> hooks;
  for (std::size_t i = 0; i < came.size(); ++i) {
    hooks.push_back(subject.trained[i].register_hook([&came, i](const at::Tensor&) { came[i] = Clock::now(); }));
  }
  const auto loss = forward(subject, batch);
  const auto start = Clock::now();
  loss.backward();
  const double whole = seconds_between(start, Clock::now());
  auto list = Json::array();
  for (std::size_t i = 0; i < came.size(); ++i) {
    const auto& each = subject.trained[i];
    each.remove_hook(hooks[i]);
    const double ready = came[i] < start ? 1 : seconds_between(start, came[i]) / whole;
    list.push_back({{"bytes", each.nbytes()}, {"ready", std::min(1.0, ready)}});
  }
  subject.optimizer->zero_grad();
  return list;
}

/// Times all-reduces of rising sizes among these ranks, while nothing else runs on the machine.
Json reduces_of(Group& group) {
  auto list = Json::array();
  if (group.world() == 1) return list;
  for (const std::int64_t bytes : {std::int64_t{4} << 10, std::int64_t{64} << 10, std::int64_t{1} << 20,
                                   std::int64_t{8} << 20, std::int64_t{32} << 20}) {
    const auto& device = group.device();
    auto tensor = at::zeros({bytes / 4}, at::TensorOptions(device.device));
    std::vector<double> seconds;
    for (int i = 0; i < 9; ++i) {
      group.barrier();
      const auto start = Clock::now();
      group.all_reduce_sum(tensor);
      device.backend->synchronize(device.index());
      seconds.push_back(seconds_between(start, Clock::now()));
    }
    list.push_back({{"bytes", bytes}, {"seconds", over_ranks(group, median(seconds))}});
  }
  return list;
}

double read_seconds(const Loader& loader) {
  constexpr std::int64_t kSamples = 64;
  const auto& source = loader.source();
  const auto count = std::min<std::int64_t>(kSamples, source.size());
  const auto start = Clock::now();
  for (std::int64_t id = 0; id < count; ++id) batch_of_one(source, {.seed = 0, .epoch = 0, .id = id, .ordinal = id});
  return seconds_between(start, Clock::now()) / static_cast<double>(count);
}

std::string processor() {
  for (const auto& line : split(text_or_nothing("/proc/cpuinfo"), '\n')) {
    if (line.starts_with("model name")) return std::string(trimmed(line.substr(line.find(':') + 1)));
  }
  return "a processor";
}

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& each : tensors) bytes += static_cast<std::int64_t>(each.nbytes());
  return bytes;
}

/// Returns a batch that has as many samples as the largest one requested.
Batch samples_for(const Recipe& recipe, Loader& loader, std::int64_t samples) {
  auto batch = loader.next();
  LOCKSTEP_ASSERT(batch);
  if (batch->samples() >= samples) return *batch;
  throw Error(ErrorKind::kUsage,
              "--batch asks for " + std::to_string(samples) + " samples, but " + recipe.name() + " has " +
                  std::to_string(batch->samples()) + " in a batch",
              "ask for less, or set data.global_batch");
}

void add_sizes(Json& object, const Subject& subject) {
  std::int64_t parameters = 0;
  for (const auto& each : subject.trained) parameters += each.numel();
  object["parameters"] = parameters;
  object["weight_bytes"] = bytes_of(subject.module->parameters());
  object["gradient_bytes"] = bytes_of(subject.trained);
  object["buffer_bytes"] = bytes_of(subject.module->buffers());
}

/// The length of one rank's training, which a model's own schedule may ask for.
TrainingPlan plan_of(const Recipe& recipe, const Loader& loader) {
  const auto options = trainer_options_of(recipe, {});
  TrainingPlan plan{.epochs = options.max_epochs, .batches_per_step = options.step.accumulate};
  const auto& read = loader.options();
  const auto batches = batches_in_epoch(loader.source().size(), read.global_batch, read.drop_last);
  plan.steps_per_epoch = std::max<std::int64_t>(1, batches / plan.batches_per_step);
  plan.steps = options.max_steps > 0 ? options.max_steps : plan.epochs * plan.steps_per_epoch;
  return plan;
}

Json described(const DescribeRequest& request, const Recipe& recipe, Group& group, PythonHost* python) {
  RecipeData data(recipe, group);
  data.setup();
  Subject subject;
  subject.module = task_of(recipe, data.sets(), group.device(), {.python = python});
  if (!group.device().is_cpu()) subject.module->to(group.device().device);
  subject.device = &group.device();
  subject.module->train();
  const auto loader = data.train_loader({0, 1});
  subject.module->on_fit_start(plan_of(recipe, *loader));
  subject.optimizer = subject.module->configure_optimizer();
  subject.precision = precision_named(recipe.text("trainer.precision"));
  for (const auto& each : subject.module->parameters()) {
    if (each.requires_grad()) subject.trained.push_back(each);
  }
  auto batches = request.batches;
  if (request.counts_only) batches = {std::min<std::int64_t>(2, loader->options().global_batch)};
  if (batches.empty()) batches = {loader->options().global_batch};
  const auto batch =
      to_device(samples_for(recipe, *loader, *std::ranges::max_element(batches)), subject.device->device);
  const auto smallest = head(batch, *std::ranges::min_element(batches));

  Json object = {{"schema", 1},
                 {"model", recipe.text("model.name")},
                 {"precision", recipe.text("trainer.precision")},
                 {"device", subject.device->is_cpu() ? processor() : subject.device->facts.name},
                 {"ranks", group.world()},
                 {"threads", at::get_num_threads()},
                 {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
                 {"is_timed", !request.counts_only},
                 {"train_samples", data.sets().train->size()},
                 {"validation_samples", data.sets().validation ? data.sets().validation->size() : 0}};
  object["start_s"] = seconds_since_process_start();
  add_sizes(object, subject);
  object["optimizer_bytes"] = optimizer_bytes(subject, smallest);
  object["gradients"] = gradients_of(subject, smallest);
  object["read_s"] = read_seconds(*loader);
  object["workers"] = loader->options().workers;
  object["batches"] = Json::array();
  for (const auto samples : batches) {
    const auto part = head(batch, samples);
    Json entry = {{"samples", samples}, {"forward_s", 0}, {"backward_s", 0}, {"update_s", 0}, {"spread", 0}};
    if (!request.counts_only) entry = timed_batch(subject, part, group);
    add_cost(entry, subject, part);
    object["batches"].push_back(entry);
  }
  object["reduces"] = reduces_of(group);
  // On a device, the network sends while the device computes. So computing and sending are timed separately.
  if (!request.counts_only && group.world() > 1 && subject.device->is_cpu()) {
    add_averaging(object["batches"], subject, batch, trainer_options_of(recipe, "").step.parallel, group);
  }
  return object;
}

}  // namespace

int run_describe(const DescribeRequest& request, const TrainerProcess& process) {
  const auto& env = process.env;
  return with_placement(env, [&](const Placement& placement) {
    const Recipe recipe = recipe_of(request.train, env, own_file());
    become_python_if_needed(recipe, process);
    auto group = join_ranks(recipe, placement, env);
    const auto object = described(request, recipe, group, process.python);
    if (group.is_main()) std::cout << json_text(object) << std::endl;
    return 0;
  });
}

}  // namespace lockstep
