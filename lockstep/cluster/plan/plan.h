// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/plan/facts.h"
#include "lockstep/cluster/plan/launch.h"
#include "lockstep/cluster/plan/step.h"
#include "lockstep/cluster/profile/account_budget.h"
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

/// The length of a training, from its recipe.
struct PlanSchedule {
  std::int64_t batch = 0;         ///< Of one rank, if `global_batch` is 0.
  std::int64_t global_batch = 0;  ///< Of all ranks.
  std::int64_t accumulate = 1;
  bool drop_last = false;
  double bucket_bytes = 25 << 20;
  std::int64_t epochs = 0;          ///< 0 if only steps end it.
  std::int64_t max_steps = 0;       ///< 0 for no limit.
  double max_s = 0;                 ///< The same.
  std::int64_t validate_every = 1;  ///< Epochs. 0 for never.
  std::int64_t save_every = 1;      ///< The same of snapshots.
};

/// Where the time that a rank computes comes from.
enum class PlanBasis {
  kMeasuredHere,   ///< Steps timed on this machine, which the job is for.
  kMeasuredThere,  ///< A run on that system.
  kPublished,      ///< Operations counted here, over the rate that others published for that device.
  kDataSheet,      ///< Also computed from a share of the data sheet's peak. Only an order of magnitude.
};

/// A step that was timed on the same system on which the job will run.
struct MeasuredStep {
  RankLayout at;
  double seconds = 0;
  double batch = 0;  ///< Of one rank.
};

/// The system on which a job will run.
struct PlanMachine {
  std::string cluster;
  int ranks = 1;  ///< Of a node.
  PlanBasis basis = PlanBasis::kMeasuredHere;
  double flops_per_s = 0;  ///< Of one device, for kPublished and kDataSheet.
  std::vector<MeasuredStep> measured{};
  PlanLaunch launch{};
  PlanLinks links;
  RankSpread spread;
  bool overlaps = true;
  int workers = 2;  ///< Of each rank's loader.
  double device_memory_bytes = 0;
  double start_calls = 0;  ///< File-system calls until the first step…
  double call_s = 0;       ///< …and what one costs there.
  double save_s_per_byte = 0;
  NodeBilling billing{"node-hours", 1};
  std::optional<AccountBudget> budget{};  ///< In the same unit. Nothing if it is unknown.
  std::string account{};                  ///< Whose it is.
  std::vector<std::string> sources;       ///< A line for each number, for people.
  std::vector<std::string> hints{};       ///< Settings to change on that cluster.
};

struct PlanQuestion {
  TrainingFacts facts;
  PlanSchedule schedule;
  PlanMachine machine;
  std::vector<int> nodes;  ///< One point for each.
};

/// The memory that a rank's device needs, in bytes.
struct PlanMemory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double buffers = 0;
  double activations = 0;

  double total() const { return weights + gradients + optimizer + buffers + activations; }
};

/// One job of a study.
struct PlanPoint {
  RankLayout at;
  double batch = 0;  ///< Of the rank with most.
  std::int64_t global_batch = 0;
  std::int64_t steps_per_epoch = 0;
  PlanMemory memory;
  StepTime step;
  double launch_s = 0;  ///< Extra time for launching kernels, while a device waits for the next one.
  double epoch_s = 0;
  double run_s = 0;
  double node_hours = 0;
  double billed_hours = 0;        ///< In the unit of the machine's billing.
  double speed_up = 1;            ///< Of an epoch, over the first point.
  double efficiency = 1;          ///< That over what more nodes were taken.
  std::optional<double> error{};  ///< Relative error of the times. Absent if they are an order of magnitude.
  std::string limit;              ///< "compute", "launches", "communication", "data" or "stragglers".
};

/// The relative error of a number by its source. The number was measured on the cluster, published for it, or computed
/// from its hardware.
inline constexpr double kMeasuredError = 0.20;
inline constexpr double kPublishedError = 0.20;
inline constexpr double kHardwareError = 0.25;

/// Returns the bytes of a snapshot: weights, optimizer state and buffers.
double snapshot_bytes(const TrainingFacts& facts);

/// Return the batch of a rank and the global batch, if there are `ranks` ranks. If ranks have batches of different
/// sizes, it is the largest.
double batch_of_rank(const PlanSchedule& schedule, int ranks);
std::int64_t global_batch_of(const PlanSchedule& schedule, int ranks);

/// Returns the largest batch of one rank that fits into a device's memory, less a GiB for the driver and its libraries.
/// Nothing if the device's memory is unknown. 0 if not even one sample fits.
std::optional<std::int64_t> largest_batch(const PlanQuestion& question);

/// Returns a prediction for each number of nodes.
///
/// Throws: Error(kRecipe) if a global batch leaves a rank without a sample, with the largest number of ranks that has
/// work, or is larger than the data set.
std::vector<PlanPoint> predicted(const PlanQuestion& question);

}  // namespace lockstep
