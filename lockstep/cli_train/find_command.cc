// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/find_command.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/own_file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli_train/python_start.h"
#include "lockstep/cli_train/rank_setup.h"
#include "lockstep/cli_train/recipe_data.h"
#include "lockstep/cli_train/recipe_training.h"
#include "lockstep/comm/join.h"
#include "lockstep/device/out_of_memory.h"
#include "lockstep/observe/lr_finder.h"
#include "lockstep/observe/progress.h"

namespace lockstep {
namespace {

constexpr double kFirstRate = 1e-8;
constexpr double kLastRate = 1;
constexpr int kRateSteps = 100;
constexpr int kChartColumns = 79;

constexpr int kBatchSteps = 4;        // Of one trial; the first is left out of the speed, for what it sets up.
constexpr double kMemoryShare = 0.9;  // Of what is free: the rest is for what other batches may need.
constexpr double kGoodSpeed = 0.95;   // Of the best: a smaller batch that has it is to be preferred.

Recipe changed(const TrainRequest& request, std::vector<std::string> sets, const TrainerProcess& process) {
  auto with = request;
  with.sets.insert(with.sets.end(), sets.begin(), sets.end());
  return recipe_of(with, process.env, own_file());
}

std::string number(double value) { return significant(value, 3); }

int find_rate(const TrainRequest& request, const Placement& placement, const TrainerProcess& process) {
  const auto recipe = changed(
      request,
      {"optimizer.lr=" + number(kFirstRate), "scheduler.name=exponential", "scheduler.interval=step",
       "scheduler.warmup=0", "scheduler.gamma=" + std::to_string(std::pow(kLastRate / kFirstRate, 1.0 / kRateSteps)),
       "trainer.max_steps=" + std::to_string(kRateSteps), "trainer.validate_every=0", "observe.log_every=1"},
      process);
  become_python_if_needed(recipe, process);
  auto group = join_ranks(recipe, placement, process.env);
  RecipeData data(recipe, group);
  data.setup();
  const auto module = task_of(recipe, data.sets(), group.device(), {.python = process.python});
  auto options = trainer_options_of(recipe, {});
  options.max_epochs = 0;
  options.guard = {.on_nonfinite = OnNonfinite::kIgnore, .sanity_check = false};
  Trainer trainer(options);
  LrFinder finder;
  if (group.is_main()) trainer.add(finder);
  trainer.fit(*module, data, group);
  if (!group.is_main()) return 0;

  const auto found = finder.suggestion();
  if (request.json) {
    auto points = nlohmann::json::array();
    for (const auto& each : finder.points()) points.push_back({each.lr, each.loss, each.smoothed});
    const nlohmann::ordered_json object = {
        {"schema", 1}, {"lr", found ? nlohmann::json(*found) : nullptr}, {"points", points}};
    std::cout << json_text(object) << std::endl;
  } else {
    std::cout << "smoothed loss over learning rate, " << finder.points().size() << " steps\n"
              << finder.chart(kChartColumns)
              << (found ? "O: the loss falls fastest. Try --set optimizer.lr=" + number(*found)
                        : "the loss was lost before a rate could be told; look at the data and the model")
              << std::endl;
  }
  return found ? 0 : exit_code(ErrorKind::kData);
}

struct Trial {
  std::int64_t batch = 0;
  double samples_per_second = 0;
  std::int64_t peak_bytes = 0;
  bool has_data = true;
  bool fits = false;
};

// Measures the time of steps, without the first step.
class StepClock final : public Listener {
 public:
  using Listener::on;
  std::string name() const override { return "step clock"; }
  Verdict on(const StepEnded& event) override {
    if (event.step > 1) {
      seconds_ += event.seconds;
      samples_ += event.samples;
    }
    return Verdict::kContinue;
  }
  double samples_per_second() const { return seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0; }

 private:
  double seconds_ = 0;
  std::int64_t samples_ = 0;
};

// Runs on this rank alone. If a rank ran out of memory in the middle of a sum, the others would wait for it.
Trial tried(const TrainRequest& request, std::int64_t batch, const Placement& placement,
            const TrainerProcess& process) {
  const auto recipe =
      changed(request,
              {"data.batch=" + std::to_string(batch), "trainer.max_steps=" + std::to_string(kBatchSteps),
               "trainer.validate_every=0", "trainer.sync_batchnorm=false", "observe.log_every=0"},
              process);
  // This rank has the same device as in the run, but a group of its own.
  Placement single;
  single.local_rank = placement.local_rank;
  single.local_world = placement.local_world;
  single.device = placement.device;
  auto group = join(single, process.env, join_options(recipe));
  const auto& device = group.device();
  RecipeData data(recipe, group);
  data.setup();
  Trial trial{.batch = batch};
  trial.has_data = batch <= data.sets().train->size();
  if (!trial.has_data) return trial;
  auto options = trainer_options_of(recipe, {});
  options.max_epochs = 0;
  options.guard = {.on_nonfinite = OnNonfinite::kIgnore, .sanity_check = false};
  Trainer trainer(options);
  StepClock clock;
  trainer.add(clock);
  device.backend->forget_peak(device.index());
  try {
    const auto module = task_of(recipe, data.sets(), device, {.python = process.python});
    trainer.fit(*module, data, group);
    trial.fits = true;
  } catch (const OutOfMemory&) {
    return trial;
  }
  trial.samples_per_second = clock.samples_per_second();
  trial.peak_bytes = device.memory().peak;
  return trial;
}

// Memory grows linearly with the batch. On a CPU the limit must not be found by exceeding it, since the kernel would
// kill the process.
std::int64_t bytes_expected(const std::vector<Trial>& trials, std::int64_t batch) {
  const auto& last = trials.back();
  if (trials.size() < 2) return last.peak_bytes;
  const auto& before = trials[trials.size() - 2];
  const double slope =
      static_cast<double>(last.peak_bytes - before.peak_bytes) / static_cast<double>(last.batch - before.batch);
  return last.peak_bytes + static_cast<std::int64_t>(std::max(0.0, slope) * static_cast<double>(batch - last.batch));
}

bool all_can(Group& group, bool can) {
  const auto answers = group.all_gather(can ? 1 : 0);
  return std::all_of(answers.begin(), answers.end(), [](auto each) { return each == 1; });
}

// The speed is that of the slowest rank, and the memory that of the rank that needs most, as in a run.
Trial over_ranks(Group& group, Trial trial) {
  const auto speeds = group.all_gather(std::llround(trial.samples_per_second * 1e3));
  const auto peaks = group.all_gather(trial.peak_bytes);
  trial.samples_per_second = static_cast<double>(*std::min_element(speeds.begin(), speeds.end())) / 1e3;
  trial.peak_bytes = *std::max_element(peaks.begin(), peaks.end());
  return trial;
}

std::string table_of(const std::vector<Trial>& trials, std::int64_t chosen) {
  std::string out = "   batch  samples/s a rank      memory\n";
  for (const auto& each : trials) {
    std::array<char, 80> line{};
    std::snprintf(line.data(), line.size(), "%8lld  %16.0f  %10s%s\n", static_cast<long long>(each.batch),
                  each.samples_per_second, human_bytes(static_cast<std::uint64_t>(each.peak_bytes)).c_str(),
                  each.batch == chosen ? "  <" : "");
    out += line.data();
  }
  return out;
}

int find_batch(const TrainRequest& request, const Placement& placement, const TrainerProcess& process) {
  const auto recipe = changed(request, {}, process);
  become_python_if_needed(recipe, process);
  auto group = join_ranks(recipe, placement, process.env);
  const Log log = rank_log(placement);
  const auto memory = group.device().memory();
  // On CPUs all ranks share the machine's memory. On devices each rank has its device's memory.
  const int sharers = group.device().is_cpu() ? placement.local_world : 1;
  const auto share = static_cast<double>(memory.available) * kMemoryShare / sharers;
  const auto limit = static_cast<std::int64_t>(share) + memory.peak;
  std::vector<Trial> trials;
  std::string end;
  for (std::int64_t batch = 1;; batch *= 2) {
    if (!trials.empty() && !all_can(group, bytes_expected(trials, batch) < limit)) {
      end = "a batch of " + std::to_string(batch) + " would take " +
            human_bytes(static_cast<std::uint64_t>(bytes_expected(trials, batch))) + " of memory, " +
            human_bytes(static_cast<std::uint64_t>(limit)) + " are there for a rank";
      break;
    }
    const auto trial = tried(request, batch, placement, process);
    if (!all_can(group, trial.fits)) {
      end = "a batch of " + std::to_string(batch) +
            (trial.has_data ? " runs out of memory" : " is more than the data set has");
      break;
    }
    trials.push_back(over_ranks(group, trial));
    if (group.is_main() && !request.json) {
      log.info("batch " + std::to_string(batch) + ": " + number(trials.back().samples_per_second) + " samples/s");
    }
  }
  if (trials.empty()) throw Error(ErrorKind::kEnvironment, end, "use a smaller model, or a device with more memory");
  if (!group.is_main()) return 0;

  const auto faster = [](const Trial& a, const Trial& b) { return a.samples_per_second < b.samples_per_second; };
  const double best = std::max_element(trials.begin(), trials.end(), faster)->samples_per_second;
  const auto chosen = std::find_if(trials.begin(), trials.end(),
                                   [&](const Trial& each) { return each.samples_per_second >= kGoodSpeed * best; });
  if (request.json) {
    auto rows = nlohmann::json::array();
    for (const auto& each : trials) rows.push_back({each.batch, each.samples_per_second, each.peak_bytes});
    const nlohmann::ordered_json object = {
        {"schema", 1}, {"batch", chosen->batch}, {"largest_batch", trials.back().batch}, {"trials", rows}};
    std::cout << json_text(object) << std::endl;
  } else {
    std::cout << table_of(trials, chosen->batch) << end << "\nthe smallest batch with " << kGoodSpeed * 100
              << " % of the best speed: try --set data.batch=" << chosen->batch << std::endl;
  }
  return 0;
}

}  // namespace

int run_find(const TrainRequest& request, const TrainerProcess& process) {
  return with_placement(process.env, [&](const Placement& placement) {
    if (request.find == "lr") return find_rate(request, placement, process);
    if (request.find == "batch") return find_batch(request, placement, process);
    throw Error(ErrorKind::kUsage, "--find is '" + request.find + "', want lr or batch",
                "lr finds a learning rate, batch a batch size");
  });
}

}  // namespace lockstep
