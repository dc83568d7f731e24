// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/scaling_chart.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lockstep/base/svg_text.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/record/scaling.h"

namespace lockstep {
namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 360;
constexpr double kLeft = 56;
constexpr double kBottom = 48;
constexpr double kTop = 16;
constexpr double kRight = 16;

/// Both axes are logarithmic, to base two. So ideal scaling is a straight line.
struct Axes {
  double ranks_from = 1;
  double ranks_to = 2;
  double speed_from = 1;
  double speed_to = 2;

  static double place(double value, double from, double to) { return std::log2(value / from) / std::log2(to / from); }
  double x(double ranks) const { return kLeft + place(ranks, ranks_from, ranks_to) * (kWidth - kLeft - kRight); }
  double y(double speed_up) const {
    return kHeight - kBottom - place(speed_up, speed_from, speed_to) * (kHeight - kBottom - kTop);
  }
};

Axes axes_of(const std::vector<ScalingRow>& rows) {
  Axes axes{.ranks_from = 1e9, .ranks_to = 1, .speed_from = 1, .speed_to = 1};
  for (const auto& row : rows) {
    axes.ranks_from = std::min(axes.ranks_from, static_cast<double>(row.run.ranks));
    axes.ranks_to = std::max(axes.ranks_to, static_cast<double>(row.run.ranks));
    axes.speed_from = std::min(axes.speed_from, row.speed_up);
    axes.speed_to = std::max(axes.speed_to, row.speed_up);
  }
  if (axes.ranks_to <= axes.ranks_from) axes.ranks_to = 2 * axes.ranks_from;
  axes.speed_to = std::max({axes.speed_to, 2 * axes.speed_from, axes.ranks_to / axes.ranks_from});
  return axes;
}

std::string grid(const std::vector<ScalingRow>& rows, const Axes& axes) {
  std::string svg;
  const double floor = kHeight - kBottom;
  std::set<int> ranks;
  for (const auto& row : rows) ranks.insert(row.run.ranks);
  for (const int each : ranks) {
    svg += svg_line({axes.x(each), kTop}, {axes.x(each), floor}, R"(stroke="#ddd")");
    svg += svg_words({axes.x(each), floor + 18}, "middle", std::to_string(each));
  }
  for (double speed = std::exp2(std::ceil(std::log2(axes.speed_from))); speed <= axes.speed_to * 1.001; speed *= 2) {
    svg += svg_line({kLeft, axes.y(speed)}, {kWidth - kRight, axes.y(speed)}, R"(stroke="#ddd")");
    svg += svg_words({kLeft - 8, axes.y(speed) + 4}, "end", shortest(speed));
  }
  svg += svg_words({(kLeft + kWidth) / 2, kHeight - 10}, "middle", "ranks");
  svg += "<text transform=\"translate(14," + fixed(kHeight / 2, 0) +
         ") rotate(-90)\" text-anchor=\"middle\">speed-up</text>\n";
  const double most = std::min(axes.ranks_to / axes.ranks_from, axes.speed_to);
  return svg + svg_line({axes.x(axes.ranks_from), axes.y(1)}, {axes.x(axes.ranks_from * most), axes.y(most)},
                        R"(stroke="#999" stroke-dasharray="4 4")");
}

}  // namespace

std::string scaling_chart(const std::vector<ScalingRow>& rows) {
  const auto axes = axes_of(rows);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + fixed(kWidth, 0) + " " + fixed(kHeight, 0) +
      "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
      grid(rows, axes);
  std::vector<std::string> labels;
  for (const auto& row : rows) {
    if (std::ranges::find(labels, row.run.label) == labels.end()) labels.push_back(row.run.label);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string colour(kSvgColours.at(i % kSvgColours.size()));
    std::string points;
    for (const auto& row : rows) {
      if (row.run.label != labels[i]) continue;
      const auto x = fixed(axes.x(row.run.ranks), 1);
      const auto y = fixed(axes.y(row.speed_up), 1);
      points += x + "," + y + " ";
      svg += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"4\" fill=\"" + colour + "\"/>\n";
    }
    svg += "<polyline points=\"" + points + "\" fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"2\"/>\n";
    svg += "<g fill=\"" + colour + "\">" +
           svg_words({kLeft + 8, kTop + 14 + 16 * static_cast<double>(i)}, "start",
                     labels[i].empty() ? "measured" : labels[i]) +
           "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace lockstep
