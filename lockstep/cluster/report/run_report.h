// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/job/run_end.h"
#include "lockstep/cluster/job/submission.h"
#include "lockstep/cluster/record/exit_record.h"
#include "lockstep/cluster/record/telemetry_summary.h"
#include "lockstep/cluster/record/training_report.h"

namespace lockstep {

/// Whether a run is still running, and how it ended.
enum class RunState {
  kWaiting,   ///< Its job is in the queue.
  kRunning,   ///< As the queue says or, without a job, the process that holds its folder.
  kFinished,  ///< It has its result.
  kStopped,   ///< Its end is recorded, but more was planned. It ended on request, or its time was over.
  kEnded,     ///< It ended well or, if its job reports nothing, its agents have ended.
  kFailed,    ///< Its job ended badly. RunReport::end has the details.
  kBroken,    ///< It has no end in its record, and nothing runs any more.
  kUnknown,   ///< Its record has no end, and nothing shows whether it still runs.
};
std::string_view name_of(RunState state);

/// One run, as far as its folder shows it.
struct RunReport {
  std::filesystem::path path{};
  std::string name{};
  std::optional<JobRecord> job{};
  RunState state = RunState::kUnknown;
  int nodes = 1;
  int tasks = 0;                    ///< 0 if unknown.
  std::optional<double> started{};  ///< Seconds since 1970.
  std::optional<double> last{};     ///< The time of its last line.
  double alive_s = 0;               ///< Of all starts together, without what lies between.
  int starts = 0;
  std::vector<int> sizes{};  ///< The nodes of each start, if they differ.
  double node_s = 0;         ///< Seconds of all nodes together, if starts have different sizes.
  std::string stopped_by{};
  std::map<std::string, std::string> facts{};
  std::map<std::string, std::string> settings{};  ///< Settings of its recipe.toml, by key. Empty if that cannot be
                                                  ///< read.
  std::optional<TrainingReport> training{};
  TelemetrySummary telemetry{};
  std::optional<RunEnd> end{};            ///< Of its last job, if that has ended.
  std::optional<FirstExit> first_exit{};  ///< The rank that ended that job, if one did.
  std::vector<std::string> last_lines{};  ///< The last lines of that rank, or else of the job's log. Only after a bad
                                          ///< end.
  bool has_event_files = false;

  double node_hours() const { return (sizes.empty() ? alive_s * nodes : node_s) / 3600; }
  JobBilling billing() const { return job ? job->billing : JobBilling{}; }
  double billed_hours() const;
  double energy_joules() const;  ///< Of the devices that report power.
  /// The energy for each sample, over all starts of the run. Nothing if no step was made, or if no device reports
  /// power.
  std::optional<double> kwh_per_sample() const;
};

/// Makes the report on one run. `queue` is empty if Slurm was not asked or does not answer. `learned` is as in RunJob.
///
/// Throws: Error(kData) if the folder holds neither metrics nor telemetry nor a job; Error(kIo) if a file in the folder
///         cannot be read.
RunReport run_report(const std::filesystem::path& run_dir, const std::optional<QueuedJobs>& queue,
                     const Environment& env, const std::optional<JobExit>& learned = {});

inline constexpr const char* kTensorboardPort = "6006";  ///< TensorBoard's default port.

/// Returns the command of a tunnel to TensorBoard on the login machine, such as "ssh -L 6006:login:6006 …". Empty if
/// the profile has no tunnel.
std::string tensorboard_tunnel(const RunReport& report, const Environment& env);

}  // namespace lockstep
