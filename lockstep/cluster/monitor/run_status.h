// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/record/node_findings.h"
#include "lockstep/telemetry/device_sensor.h"
#include "lockstep/telemetry/process_tree.h"

namespace lockstep {

/// One task, as of its node's last sample.
struct TaskStatus {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  char state = '?';               ///< State of its first thread, in the kernel's letters.
  std::optional<double> cores{};  ///< Busy between the last two samples. Absent if it is in one only.
  std::uint64_t memory_bytes = 0;
  int processes = 0;
  int threads = 0;
};

/// One node, as of its last samples.
struct NodeStatus {
  std::string node{};
  int local_world = 0;              ///< Number of tasks that it started with. 0 if unknown.
  bool has_ended = false;           ///< Its agent said goodbye.
  bool is_silent = false;           ///< It said nothing for more than three periods, though the run lives.
  std::optional<double> age_s{};    ///< Of its last sample.
  std::vector<TaskStatus> tasks{};  ///< Those that lived then, by rank.
  MemorySample memory{};
  std::optional<double> read_bytes_per_s{};
  std::optional<double> written_bytes_per_s{};
  std::vector<DeviceSample> devices{};

  std::optional<double> cores() const;  ///< Of all tasks.
  std::uint64_t tasks_memory_bytes() const;
};

/// Values of metrics.jsonl for a running training. Values not written yet are absent.
struct TrainingStatus {
  std::int64_t step = 0;
  std::int64_t steps_total = 0;         ///< 0 if the plan has no limit on steps.
  std::int64_t epochs = 0;              ///< The same.
  std::optional<std::int64_t> epoch{};  ///< From 0.
  std::optional<double> loss{};
  std::optional<double> samples_per_second{};
  std::optional<double> seconds_left{};
  std::map<std::string, double> validation{};  ///< Of the last one, by name.
  std::string stopped_by{};                    ///< Of a run that has ended.
  bool has_ended = false;
};

/// The rank that differs from all others while tasks are stuck. Usually the others wait for this rank.
struct OddRank {
  int rank = 0;
  std::string node{};
  std::string how{};  ///< "alone waits for a disk or a device (state D)"
};

/// The state of a run, as far as its folder, Slurm's queue or its nodes show it.
struct RunStatus {
  std::string name{};
  std::filesystem::path run_dir{};      ///< Empty if there is none.
  std::string job{};                    ///< The same.
  std::string state{};                  ///< "running", "pending (Priority)", "finished", "ended"…
  int nodes = 0;                        ///< Number of nodes that it was given. 0 if unknown.
  int tasks = 0;                        ///< The same.
  bool is_over = false;                 ///< Nothing more will come.
  std::vector<NodeStatus> node_list{};  ///< Those that have said something, by their first rank.
  std::optional<TrainingStatus> training{};
  std::vector<NodeFinding> findings{};  ///< Not over.
  std::optional<OddRank> odd_rank{};
  std::string note{};  ///< Why there is less to see than one may expect.
};

}  // namespace lockstep
