// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/svg_text.h"
#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

inline constexpr std::size_t kMostChartPoints = 400;

struct ChartSeries {
  std::string label{};
  std::vector<SvgPoint> points{};  ///< In the data's units, by x.
};

struct LineChart {
  std::string title{};
  std::string x_label{};
  bool is_from_zero = false;  ///< The vertical axis begins at 0.
  std::vector<ChartSeries> series{};
};

/// Returns an SVG element. Its colours are the page's, `currentColor` and the custom properties --c0 to --c5. Long
/// series are drawn as the means of kMostChartPoints intervals. Empty if there is nothing to draw.
std::string line_chart(const LineChart& chart);

/// Returns a bar that shows parts of a whole side by side, with their shares below.
std::string share_bar(const std::vector<std::pair<std::string, double>>& parts);

/// Returns the charts for which a run has numbers. They may be loss, validation, samples/s, an epoch's phases, power,
/// use of devices, and cores.
std::vector<std::string> training_charts(const RunReport& report);
std::vector<std::string> node_charts(const RunReport& report);

}  // namespace lockstep
