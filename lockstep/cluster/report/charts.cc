// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/charts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/report/numbers.h"

namespace lockstep {
namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 240;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 40;
constexpr double kBottom = 44;
constexpr double kGapOfTicks = 70;  // At most a tick in so many pixels.
constexpr std::size_t kMostMetrics = 4;

constexpr std::string_view kGrid = R"(stroke="currentColor" stroke-opacity="0.15")";

struct Axis {
  double from = 0;
  double to = 1;
  double tick = 1;

  double share(double value) const { return (value - from) / (to - from); }
};

/// Returns an axis between round numbers, with about `ticks` ticks of 1, 2 or 5 times a power of ten.
Axis axis_of(double from, double to, int ticks) {
  if (!(to > from)) {
    const double half = from == 0 ? 0.5 : std::abs(from) / 2;
    from -= half;
    to += half;
  }
  const double raw = (to - from) / ticks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double tick = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= raw) tick = factor * power;
  }
  return {std::floor(from / tick) * tick, std::ceil(to / tick) * tick, tick};
}

std::vector<SvgPoint> thinned(const std::vector<SvgPoint>& points) {
  std::vector<SvgPoint> finite;
  std::ranges::copy_if(points, std::back_inserter(finite),
                       [](const auto& each) { return std::isfinite(each.x) && std::isfinite(each.y); });
  if (finite.size() <= kMostChartPoints) return finite;
  std::vector<SvgPoint> means;
  for (std::size_t i = 0; i < kMostChartPoints; ++i) {
    const auto from = i * finite.size() / kMostChartPoints;
    const auto to = (i + 1) * finite.size() / kMostChartPoints;
    SvgPoint mean;
    for (auto at = from; at < to; ++at) {
      mean.x += finite[at].x;
      mean.y += finite[at].y;
    }
    means.push_back({mean.x / static_cast<double>(to - from), mean.y / static_cast<double>(to - from)});
  }
  return means;
}

std::string tick_text(double value, double tick) {
  if (std::abs(value) < tick / 1000) return "0";
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(tick) + 1e-9)));
  if (digits > 4) return significant(value, 3);
  std::string text = fixed(value, digits);
  if (std::abs(value) >= 1e6) text = significant(value, 4);
  return text;
}

struct Plot {
  Axis x;
  Axis y;

  SvgPoint at(const SvgPoint& point) const {
    return {kLeft + x.share(point.x) * (kWidth - kLeft - kRight),
            kHeight - kBottom - y.share(point.y) * (kHeight - kTop - kBottom)};
  }
};

std::string grid_of(const Plot& plot, const std::string& x_label) {
  std::string svg;
  const double floor = kHeight - kBottom;
  for (int i = 0; plot.y.from + i * plot.y.tick <= plot.y.to + plot.y.tick * 1e-6; ++i) {
    const double value = plot.y.from + i * plot.y.tick;
    const double y = plot.at({plot.x.from, value}).y;
    svg += svg_line({kLeft, y}, {kWidth - kRight, y}, kGrid);
    svg += svg_words({kLeft - 8, y + 4}, "end", tick_text(value, plot.y.tick));
  }
  for (int i = 0; plot.x.from + i * plot.x.tick <= plot.x.to + plot.x.tick * 1e-6; ++i) {
    const double value = plot.x.from + i * plot.x.tick;
    const double x = plot.at({value, plot.y.from}).x;
    svg += svg_line({x, floor}, {x, floor + 4}, R"(stroke="currentColor")");
    svg += svg_words({x, floor + 18}, "middle", tick_text(value, plot.x.tick));
  }
  svg += svg_line({kLeft, floor}, {kWidth - kRight, floor}, R"(stroke="currentColor")");
  return svg + svg_words({(kLeft + kWidth - kRight) / 2, kHeight - 8}, "middle", x_label);
}

std::string svg_head(double width, double height, const std::string& label) {
  return "<svg viewBox=\"0 0 " + fixed(width, 0) + " " + fixed(height, 0) + "\" role=\"img\" aria-label=\"" +
         xml_escaped(label) + "\" font-size=\"12\" fill=\"currentColor\">\n";
}

/// Adds a legend behind the title: the name of each series in the series' colour.
std::string legend_of(const LineChart& chart) {
  std::string svg = "<text x=\"" + fixed(kLeft, 0) + "\" y=\"22\"><tspan font-weight=\"600\" font-size=\"13\">" +
                    xml_escaped(chart.title) + "</tspan>";
  for (std::size_t i = 0; chart.series.size() > 1 && i < chart.series.size(); ++i) {
    svg += "<tspan dx=\"14\" style=\"fill:var(--c" + std::to_string(i % kSvgColours.size()) + ")\">● " +
           xml_escaped(chart.series[i].label) + "</tspan>";
  }
  return svg + "</text>\n";
}

/// Chooses seconds, minutes or hours for an axis, so that its numbers are small.
struct TimeUnit {
  double seconds = 1;
  const char* name = "s";
};
TimeUnit unit_for(double span_s) {
  if (span_s > 3 * 3600) return {3600, "h"};
  return span_s > 300 ? TimeUnit{60, "min"} : TimeUnit{};
}

LineChart time_chart(const std::string& title, const RunReport& report, const std::vector<TimeCurve::Point>& points) {
  const double start = report.started.value_or(0);
  const auto unit = unit_for(report.last.value_or(start) - start);
  LineChart chart{.title = title, .x_label = std::string("time in ") + unit.name, .is_from_zero = true};
  chart.series.push_back({.label = title});
  for (const auto& each : points) {
    chart.series[0].points.push_back({std::max(0.0, each.time - start) / unit.seconds, each.value});
  }
  return chart;
}

LineChart loss_chart(const TrainingReport& training) {
  LineChart chart{.title = "Loss", .x_label = "step"};
  ChartSeries train{.label = "training"};
  ChartSeries validation{.label = "validation"};
  for (const auto& each : training.logged) train.points.push_back({static_cast<double>(each.to), each.loss});
  for (const auto& line : training.validations) {
    validation.points.push_back({static_cast<double>(line.step), number_of(line, "metrics.val_loss")});
  }
  chart.series = {train, validation};
  return chart;
}

LineChart metrics_chart(const TrainingReport& training) {
  LineChart chart{.title = "Validation", .x_label = "step"};
  std::map<std::string, ChartSeries> found;
  constexpr std::string_view kPrefix = "metrics.";
  for (const auto& line : training.validations) {
    for (const auto& [key, value] : line.values) {
      if (!key.starts_with(kPrefix) || key.ends_with("loss")) continue;
      auto& series = found[key];
      series.label = key.substr(kPrefix.size());
      series.points.push_back({static_cast<double>(line.step), value});
    }
  }
  for (auto& [key, series] : found) {
    if (chart.series.size() < kMostMetrics) chart.series.push_back(std::move(series));
  }
  if (chart.series.size() == 1) chart.title = chart.series[0].label;
  return chart;
}

void keep(std::string svg, std::vector<std::string>& charts) {
  if (!svg.empty()) charts.push_back(std::move(svg));
}

}  // namespace

std::string line_chart(const LineChart& given) {
  LineChart chart = given;
  for (auto& series : chart.series) series.points = thinned(series.points);
  std::erase_if(chart.series, [](const auto& series) { return series.points.empty(); });
  if (chart.series.empty()) return {};
  SvgPoint least = chart.series[0].points[0];
  SvgPoint most = least;
  for (const auto& series : chart.series) {
    for (const auto& each : series.points) {
      least = {std::min(least.x, each.x), std::min(least.y, each.y)};
      most = {std::max(most.x, each.x), std::max(most.y, each.y)};
    }
  }
  if (chart.is_from_zero) least.y = std::min(0.0, least.y);
  // The axis begins at 0, even if the first logged line came later.
  Plot plot{.x = axis_of(std::min(0.0, least.x), most.x, static_cast<int>((kWidth - kLeft) / kGapOfTicks)),
            .y = axis_of(least.y, most.y, 4)};
  plot.x.to = std::max(most.x, plot.x.from + plot.x.tick / 10);
  std::string svg = svg_head(kWidth, kHeight, chart.title) + grid_of(plot, chart.x_label);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::string colour = "var(--c" + std::to_string(i % kSvgColours.size()) + ")";
    std::vector<SvgPoint> points;
    for (const auto& each : chart.series[i].points) points.push_back(plot.at(each));
    svg += svg_polyline(points, "style=\"stroke:" + colour + "\" stroke-width=\"1.5\"");
    for (const auto& each : points.size() <= 40 ? points : std::vector<SvgPoint>{}) {
      svg += "<circle cx=\"" + fixed(each.x, 1) + "\" cy=\"" + fixed(each.y, 1) +
             "\" r=\"2.5\" style=\"fill:" + colour + "\"/>\n";
    }
  }
  return svg + legend_of(chart) + "</svg>\n";
}

std::string share_bar(const std::vector<std::pair<std::string, double>>& parts) {
  double all = 0;
  for (const auto& [name, value] : parts) all += value;
  if (!(all > 0)) return {};
  constexpr double kBar = 24;
  std::string svg = svg_head(kWidth, 64, "shares");
  std::string words = "<text x=\"0\" y=\"48\">";
  double x = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double width = parts[i].second / all * kWidth;
    const std::string colour = "style=\"fill:var(--c" + std::to_string(i % kSvgColours.size()) + ")\"";
    svg += "<rect x=\"" + fixed(x, 1) + "\" y=\"4\" width=\"" + fixed(width, 1) + "\" height=\"" + fixed(kBar, 0) +
           "\" " + colour + "/>\n";
    words += "<tspan dx=\"" + std::string(i == 0 ? "0" : "14") + "\" " + colour + ">●</tspan><tspan dx=\"4\">" +
             xml_escaped(parts[i].first) + " " + percent_text(parts[i].second / all) + "</tspan>";
    x += width;
  }
  return svg + words + "</text>\n</svg>\n";
}

std::vector<std::string> training_charts(const RunReport& report) {
  std::vector<std::string> charts;
  if (!report.training) return charts;
  const auto& training = *report.training;
  keep(line_chart(loss_chart(training)), charts);
  keep(line_chart(metrics_chart(training)), charts);
  std::vector<TimeCurve::Point> rates;
  for (const auto& each : training.logged) rates.push_back({each.time, each.samples_per_second});
  keep(line_chart(time_chart("Samples a second", report, rates)), charts);
  return charts;
}

std::vector<std::string> node_charts(const RunReport& report) {
  std::vector<std::string> charts;
  const auto& telemetry = report.telemetry;
  keep(line_chart(time_chart("Power in W, mean of the devices that report it", report, telemetry.power.points())),
       charts);
  keep(line_chart(time_chart("Devices busy in %, mean of all", report, telemetry.busy.points())), charts);
  keep(line_chart(time_chart("Cores of a task, mean of all", report, telemetry.cores.points())), charts);
  return charts;
}

}  // namespace lockstep
