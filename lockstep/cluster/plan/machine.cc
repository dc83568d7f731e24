// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/machine.h"

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

// Source: Sinha and others, "Not All GPUs Are Created Equal" (SC22, arXiv 2208.11035): devices of one kind vary by 8 %
//         on average, between the ends of a box plot's whiskers. For a normal distribution that range is 5.4 standard
//         deviations.
constexpr double kDeviceSpread = 0.08 / 5.4;

// Source: ResNet-50 on an A100 trains 2470 images a second (NVIDIA's DeepLearningExamples, mixed precision), each of
// 3 × 8.2 GFLOP: 0.19 of the data sheet's 312 TFLOPS.
constexpr double kShareOfPeak = 0.2;

// These numbers were measured with strace: one rank's first step, and a synced snapshot of 1 GB (docs/cluster/plan.md).
constexpr double kStartCalls = 470;
constexpr double kSaveSecondsPerByte = 0.64e-9;

/// Returns the rate of a precision, such as 60 for bf16 from "bf16 60". 0 if the list has no such entry.
double rate_in(const std::vector<std::string>& list, const std::string& precision, const Profile& profile,
               const std::string& key) {
  for (const auto& entry : list) {
    const auto space = entry.find(' ');
    const auto rate = space == std::string::npos ? std::nullopt : parsed_double(entry.substr(space + 1));
    if (!rate || *rate <= 0) {
      throw Error(ErrorKind::kRecipe,
                  profile.origin(key) + ": " + key + " has '" + entry + "', want \"PRECISION TFLOPS\"",
                  "for example \"bf16 60\"");
    }
    if (entry.substr(0, space) == precision) return *rate;
  }
  return 0;
}

void take_rate(PlanMachine& machine, const Profile& profile, const TrainingFacts& facts) {
  const auto& devices = profile.devices;
  const double published = rate_in(devices.training_tflops, facts.precision, profile, "devices.training_tflops");
  const double peak = rate_in(devices.peak_tflops, facts.precision, profile, "devices.peak_tflops");
  if (published > 0) {
    machine.basis = PlanBasis::kPublished;
    machine.flops_per_s = published * 1e12;
    machine.sources.push_back("computing: operations counted here, " + fixed(published, 1) +
                              " TFLOPS in training (published; " + profile.origin("devices.training_tflops") + ")");
    return;
  }
  if (peak <= 0) {
    throw Error(ErrorKind::kEnvironment,
                "it is unknown how fast " + (devices.name.empty() ? "the devices of " + profile.name : devices.name) +
                    " computes in " + facts.precision,
                "give a run from there with --measured RUN, or devices.peak_tflops = [\"" + facts.precision +
                    " TFLOPS\"] in a profile of your own");
  }
  machine.basis = PlanBasis::kDataSheet;
  machine.flops_per_s = peak * kShareOfPeak * 1e12;
  machine.sources.push_back("computing: operations counted here, a fifth of the data sheet's " + fixed(peak, 1) +
                            " TFLOPS (" + profile.origin("devices.peak_tflops") +
                            "): an order of magnitude; --measured RUN makes it a prediction");
}

void take_compute(PlanMachine& machine, const Profile& profile, const TrainingFacts& facts, const PlanTarget& target) {
  if (!target.measured.empty()) {
    machine.basis = PlanBasis::kMeasuredThere;
    machine.measured = target.measured;
    std::vector<std::string> steps;
    for (const auto& each : target.measured) {
      steps.push_back(fixed(each.seconds * 1e3, 2) + " ms a step of " + fixed(each.batch, 0) + " on " +
                      counted(each.at.ranks(), "rank"));
    }
    machine.sources.push_back("computing: " + target.measured_in + " took " + joined(steps, ", ") +
                              " (measured there)");
  } else if (target.is_here) {
    machine.basis = PlanBasis::kMeasuredHere;
    const std::string ranks = facts.ranks == 1 ? "one rank" : std::to_string(facts.ranks) + " ranks side by side";
    machine.sources.push_back("computing: steps timed on " + facts.device + ", " + ranks + ", " +
                              counted(facts.threads, "thread") + " each (measured here)");
  } else {
    take_rate(machine, profile, facts);
  }
}

void take_links(PlanMachine& machine, const Profile& profile, const TrainingFacts& facts, bool is_here) {
  auto& links = machine.links;
  links.node_bus = static_cast<double>(profile.devices.bus_gbs) * 1e9;
  links.network_bus = static_cast<double>(profile.network.node_gbs) * 1e9;
  links.has_fast_links = profile.devices.bus_gbs > 0;
  if (is_here && !facts.reduces.empty()) {
    links.measured = facts.reduces;
    links.measured_ranks = facts.ranks;
    machine.sources.push_back("all-reduce in a node: timed among " + std::to_string(facts.ranks) +
                              " ranks (measured here)");
  } else if (machine.ranks > 1) {
    machine.sources.push_back(links.node_bus > 0
                                  ? "all-reduce in a node: " + std::to_string(profile.devices.bus_gbs) + " GB/s (" +
                                        profile.origin("devices.bus_gbs") + ")"
                                  : "all-reduce in a node: unknown, counted as nothing (devices.bus_gbs)");
  }
  machine.sources.push_back(links.network_bus > 0
                                ? "all-reduce between nodes: " + std::to_string(profile.network.node_gbs) +
                                      " GB/s a node (" + profile.origin("network.node_gbs") + ")"
                                : "all-reduce between nodes: unknown, counted as nothing (network.node_gbs)");
}

/// Returns the precision in which the devices compute faster.
void take_precision_hint(PlanMachine& machine, const Profile& profile, const std::string& precision) {
  if (profile.devices.count == 0) return;
  const auto& name = profile.devices.name.empty() ? profile.name : profile.devices.name;
  if (precision == "bf16" && !profile.devices.fast_bf16) {
    machine.hints.push_back("bf16 is no faster than fp32 on " + name + " (" + profile.origin("devices.fast_bf16") +
                            "): --set trainer.precision=fp16 or fp32");
  } else if ((precision == "fp32" || precision == "fp64") && profile.devices.fast_bf16) {
    machine.hints.push_back("bf16 is faster than " + precision + " on " + name +
                            " where the model bears it: --set trainer.precision=bf16");
  }
}

}  // namespace

PlanMachine plan_machine(const Profile& profile, const TrainingFacts& facts, const PlanTarget& target) {
  PlanMachine machine;
  machine.cluster = profile.name;
  machine.ranks = target.ranks;
  take_compute(machine, profile, facts, target);
  take_links(machine, profile, facts, target.is_here);
  const bool has_devices = profile.devices.count > 0;
  if (has_devices) machine.launch = device_launch(target.launch, target.is_compiled);
  if (has_devices) machine.sources.push_back(machine.launch.source);
  take_precision_hint(machine, profile, facts.precision);
  machine.overlaps = has_devices || facts.ranks * facts.threads < facts.cores;
  machine.spread.devices = has_devices ? kDeviceSpread : 0;
  // If steps vary by more than this, the machine is busy with other work, and a normal distribution does not describe
  // it.
  machine.spread.steps = target.is_here ? std::min(0.3, facts.batches.front().spread) : 0;
  machine.sources.push_back(has_devices ? "stragglers: devices of one kind vary by 8 % (published: arXiv 2208.11035)"
                                        : "stragglers: steps here vary by " + fixed(machine.spread.steps * 100, 1) +
                                              " % (measured here)");
  machine.workers = static_cast<int>(std::max<std::int64_t>(1, profile.sbatch.cores_per_device - 1));
  machine.device_memory_bytes = static_cast<double>(profile.devices.memory_gib) * (1 << 30);
  machine.start_calls = target.is_here ? 0 : kStartCalls;
  machine.call_s = static_cast<double>(profile.storage.call_us) * 1e-6;
  machine.save_s_per_byte = kSaveSecondsPerByte;
  const auto* queue = known_queue(profile, profile.slurm.qos, profile.slurm.partition);
  machine.billing = node_billing(profile, target.ranks, 0, queue != nullptr && queue->whole_node);
  return machine;
}

}  // namespace lockstep
