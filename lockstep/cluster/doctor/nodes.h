// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// The facts that one task sends to the others.
struct TaskReport {
  int rank = 0;
  int node_rank = 0;
  std::string host{};
  std::string device{};  ///< Its PCI address. Empty if there is none.
  std::string cpus{};    ///< "0-6".
  int cores = 0;
  std::string versions{};  ///< Versions of kernel and drivers, which are equal on all nodes of a sound job.
  std::vector<Finding> findings{};
};

TaskReport task_view(const DoctorContext& of, std::vector<Finding> findings);

/// Checks the tasks of a job together, for devices that two ranks use and for one core shared by all.
void check_tasks(const std::vector<TaskReport>& tasks, Findings& findings);

/// Measurements of the link between two nodes.
struct LinkView {
  std::string from{};
  std::string to{};
  double bytes_per_second = 0;
};

/// The difference of a node's clock from rank 0's.
struct ClockView {
  std::string host{};
  double ahead_s = 0;
  double uncertain_s = 0;  ///< Half of the time that the question and its answer took.
};

/// The results that rank 0 has at the end.
struct JobReport {
  std::vector<TaskReport> tasks{};    ///< Of all that came.
  std::vector<int> absent{};          ///< Ranks that did not.
  std::vector<ClockView> clocks{};    ///< One a node.
  std::vector<LinkView> links{};      ///< Each node to the next. None if the job has one node.
  std::vector<std::string> wrong{};   ///< Nodes whose all-reduce gave another sum.
  std::vector<std::string> broken{};  ///< Nodes that did not get through the all-reduce.
};

/// Adds findings about links and clocks, from the measurements.
void check_nodes(const JobReport& job, Findings& findings);

/// Returns all findings of a job, each once, with the nodes on which it was found.
std::vector<Finding> merged(const JobReport& job);

}  // namespace lockstep
