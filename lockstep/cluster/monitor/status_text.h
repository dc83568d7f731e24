// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/monitor/run_status.h"

namespace lockstep {

enum class Tone { kPlain, kHead, kQuiet, kAlarm };

/// One line for people, and how much it matters.
struct StatusLine {
  std::string text{};
  Tone tone = Tone::kPlain;
};

/// A run's status as lines: the run, its training, its nodes with their devices, then what is wrong. Beyond
/// `most_nodes` nodes: least, mean and most of all, the nodes that differ most, and how many others there are.
std::vector<StatusLine> view_of(const RunStatus& status, std::size_t most_nodes = 16);

/// What lines may take up on a terminal, and whether it shows colours; 0 for no bound.
struct ViewRoom {
  int columns = 0;
  int rows = 0;
  bool colour = false;
};

/// The lines as text; what has no room is cut, and a last line says how many are left out.
std::string text_of(const std::vector<StatusLine>& lines, const ViewRoom& room);

/// Which of more nodes than there is room for to show: those that are silent, have lost tasks or differ most from
/// the middle one in any number, as indices in the nodes' order.
std::vector<std::size_t> most_different(const std::vector<NodeStatus>& nodes, std::size_t most);

}  // namespace lockstep
