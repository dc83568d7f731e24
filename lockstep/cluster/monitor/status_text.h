// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/monitor/run_status.h"

namespace lockstep {

enum class Tone { kPlain, kHead, kQuiet, kAlarm };

/// One line of the output, and how important it is.
struct StatusLine {
  std::string text{};
  Tone tone = Tone::kPlain;
};

/// Formats a run's status as lines. They show the run, its training, its nodes with their devices, and then problems.
/// Beyond `most_nodes` nodes they show minimum, mean and maximum of all, the nodes that differ most, and the number of
/// others.
std::vector<StatusLine> view_of(const RunStatus& status, std::size_t most_nodes = 16);

/// The size of the terminal, and whether it shows colours. A size of 0 means no limit.
struct ViewRoom {
  int columns = 0;
  int rows = 0;
  bool colour = false;
};

/// Joins the lines for a terminal of this size. A line that is too long is cut. If there are too many lines, the last
/// one says how many are left out.
std::string text_of(const std::vector<StatusLine>& lines, const ViewRoom& room);

/// Chooses the nodes to show if there are more than fit. These are nodes that are silent, have lost tasks, or differ
/// most from the median in any number. Returns indices in the nodes' order.
std::vector<std::size_t> most_different(const std::vector<NodeStatus>& nodes, std::size_t most);

}  // namespace lockstep
