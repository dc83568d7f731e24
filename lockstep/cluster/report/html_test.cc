// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/html.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <set>

#include "lockstep/cluster/report/charts.h"
#include "lockstep/cluster/report/page.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

/// Returns a fault in a page's tags, such as a tag that is not closed. Empty if there is none.
std::string fault_of(const std::string& html) {
  static const std::set<std::string> kAlone = {"meta", "!DOCTYPE"};
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([A-Za-z!][A-Za-z0-9]*)((?:[^>"]|"[^"]*")*)>)");
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    const std::string rest = (*it)[3];
    if (kAlone.contains(name) || rest.ends_with("/")) continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> closes " + (open.empty() ? "nothing" : "<" + open.back() + ">");
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? std::string() : "<" + open.back() + "> is left open";
}

RunReport made_up(const std::string& name) {
  RunReport report{
      .path = "/runs/" + name, .name = name, .started = 1000.0, .last = 2000.0, .alive_s = 1000, .starts = 1};
  TrainingReport training;
  training.figures.ranks = 2;
  training.figures.epoch_s = 10;
  training.figures.run_s = 1000;
  training.figures.phases_s = {7, 2, 1, 0};
  training.figures.samples_per_second = 400;
  training.metrics["val_loss"] = 0.25;
  for (int i = 0; i < 1000; ++i) {
    training.logged.push_back({.from = i * 10,
                               .to = i * 10 + 10,
                               .seconds = 1,
                               .time = 1000.0 + i,
                               .loss = i == 3 ? std::numeric_limits<double>::quiet_NaN() : 1.0 / (1 + i),
                               .samples_per_second = 400});
  }
  for (int epoch = 0; epoch < 30; ++epoch) training.epochs.push_back({.epoch = epoch, .steps = 10, .seconds = 10});
  report.training = training;
  NodeSummary node{.node = "n<1>", .first = 1000, .last = 2000, .alive_s = 1000, .agents = 1, .samples = 2};
  node.devices.push_back({.pci = "a"});
  node.devices[0].power_watts.add(300);
  node.findings.push_back({.node = "n<1>",
                           .code = "device-idle",
                           .text = "a & b \"c\" <script>\x01\xff\n  hint: do \"this\"",
                           .since = 1500});
  report.telemetry.nodes.push_back(node);
  for (int i = 0; i < 500; ++i) report.telemetry.power.add(1000 + 2 * i, 300 + i % 7);
  return report;
}

TEST(ReportPages, CloseWhatTheyOpenAndEscapeWhatTheyShow) {
  const ReportPage page{.runs = {made_up("a & <b>")}, .tunnels = {"ssh -L 6006:localhost:6006 \"x\""}};
  const auto html = report_html(page);
  EXPECT_EQ(fault_of(html), "");
  EXPECT_HAS(html, "<h1>a &amp; &lt;b&gt;</h1>");
  EXPECT_HAS(html, "<dd>a &amp; b &quot;c&quot; &lt;script&gt;\xEF\xBF\xBD\xEF\xBF\xBD (since ");
  EXPECT_HAS(html, "<p class=\"hint\">do &quot;this&quot;</p>\n</dd>") << "hints are apart from facts";
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos) << "nothing is fetched";
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_HAS(html, "<h2>TensorBoard</h2>");
  EXPECT_HAS(html, "Of 30 rows the first 3 and the last 7 are shown");
}

TEST(ReportPages, CompareSeveralRunsFirst) {
  const std::vector<RunReport> runs = {made_up("a"), made_up("b")};
  const ReportPage page{.runs = runs, .tunnels = {"", ""}, .comparison = compared(runs)};
  const auto html = report_html(page);
  EXPECT_EQ(fault_of(html), "");
  EXPECT_LT(html.find("<h1>2 runs</h1>"), html.find("<h2>Side by side</h2>"));
  EXPECT_LT(html.find("<h2>Side by side</h2>"), html.find("<h1>a</h1>"));
}

TEST(LineCharts, DrawAtMostSoManyPoints) {
  LineChart chart{.title = "Loss", .x_label = "step", .series = {{.label = "a"}}};
  EXPECT_EQ(line_chart(chart), "");
  for (int i = 0; i < 100000; ++i) chart.series[0].points.push_back({static_cast<double>(i), std::sin(i / 1e4)});
  const auto svg = line_chart(chart);
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_LE(std::ranges::count(svg.substr(svg.find("<polyline")), ','), static_cast<std::ptrdiff_t>(kMostChartPoints));
}

TEST(LineCharts, DrawASinglePointAndAConstant) {
  for (const auto& points : {std::vector<SvgPoint>{{0, 0}}, std::vector<SvgPoint>{{5, 1}, {6, 1}}}) {
    const auto svg = line_chart({.title = "x", .series = {{.label = "a", .points = points}}});
    EXPECT_EQ(fault_of(svg), "");
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
  }
}

}  // namespace
}  // namespace lockstep
