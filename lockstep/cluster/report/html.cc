// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/html.h"

#include <algorithm>
#include <cctype>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/record/scaling_chart.h"
#include "lockstep/cluster/report/charts.h"
#include "lockstep/cluster/report/page.h"
#include "lockstep/cluster/report/sections.h"
#include "lockstep/cluster/report/text.h"
#include "lockstep/cluster/report/verdict.h"

namespace lockstep {
namespace {

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #fff; --soft: #f4f5f7; --line: #d9dce1; --dim: #5a626e;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b3558f; --c4: #b87d00; --c5: #3a94c9; }
@media (prefers-color-scheme: dark) { :root { --fg: #e4e7eb; --bg: #14171b; --soft: #1e2228; --line: #363c45; --dim: #9aa3af;
  --c0: #56b4e9; --c1: #f08a3c; --c2: #2fc79a; --c3: #e29cc6; --c4: #e9b44c; --c5: #9fd3f2; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--fg); background: var(--bg); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 26px; margin: 24px 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 32px 0 8px; padding-bottom: 4px; border-bottom: 1px solid var(--line); }
.verdict { overflow-wrap: anywhere; font-size: 17px; padding: 12px 16px; background: var(--soft); border-left: 4px solid var(--c0); border-radius: 4px; }
dl { display: grid; grid-template-columns: fit-content(40%) minmax(0, 1fr); gap: 2px 20px; margin: 0; }
dt { color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; }
.hint { margin: 8px 0 0; padding: 8px 16px; border-left: 4px solid var(--c1); border-radius: 4px; overflow-wrap: anywhere; }
.hint::before { content: "Try: "; color: var(--dim); }
p, dt { overflow-wrap: anywhere; }
pre { margin: 0; padding: 8px 16px; background: var(--soft); border-radius: 4px; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 600px) { dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 8px 0; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:not(.number):last-child { white-space: normal; min-width: 160px; }
.number { text-align: right; }
th { color: var(--dim); font-weight: 500; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 16px; margin: 16px 0; }
svg { width: 100%; height: auto; max-width: 640px; }
.bar { margin-top: 16px; }
article + article { border-top: 2px solid var(--line); margin-top: 48px; }
)css";

std::string element(const std::string& name, const std::string& text) {
  return "<" + name + ">" + xml_escaped(text) + "</" + name + ">\n";
}

bool is_number(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-');
}

std::string table_html(const TableRows& rows) {
  if (rows.size() < 2) return {};
  std::vector<bool> numbers(rows.front().size(), true);
  for (std::size_t row = 1; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!is_number(rows[row][i])) numbers[i] = false;
    }
  }
  std::string html = "<div class=\"table\"><table>\n";
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::string cell = row == 0 ? "th" : "td";
    html += "<tr>";
    for (std::size_t i = 0; i < rows[row].size(); ++i) {
      html += "<" + cell + (numbers[i] ? " class=\"number\">" : ">") + xml_escaped(rows[row][i]) + "</" + cell + ">";
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string charts_html(const std::vector<std::string>& charts) {
  if (charts.empty()) return {};
  std::string html = "<div class=\"charts\">\n";
  for (const auto& each : charts) html += "<div>" + each + "</div>\n";
  return html + "</div>\n";
}

std::string hint_html(const std::string& hint) {
  return hint.empty() ? std::string() : "<p class=\"hint\">" + xml_escaped(hint) + "</p>\n";
}

std::string section_html(const ReportSection& section, const std::string& charts) {
  std::string html = "<section>\n" + element("h2", section.title);
  if (!section.facts.empty()) {
    html += "<dl>\n";
    for (const auto& fact : section.facts) {
      html += element("dt", fact.name) + "<dd>" + xml_escaped(fact.text) + hint_html(fact.hint) + "</dd>\n";
    }
    html += "</dl>\n";
  }
  for (const auto& sentence : section.sentences) html += element("p", sentence);
  if (!section.lines.empty()) html += element("pre", joined(section.lines, "\n"));
  return html + charts + table_html(section.table) + "</section>\n";
}

/// Returns the phases of an epoch's time, or nothing.
std::string phases_html(const RunReport& report) {
  if (!report.training) return {};
  std::vector<std::pair<std::string, double>> parts;
  for (std::size_t i = 0; i < kEpochPhases.size(); ++i) {
    parts.emplace_back(kEpochPhases.at(i), report.training->figures.phases_s.at(i));
  }
  return "<div class=\"bar\">" + share_bar(parts) + "</div>\n";
}

std::string run_html(const RunReport& report, const std::string& tunnel) {
  std::string html = "<article>\n" + element("h1", report.name);
  const auto verdict = verdict_of(report);
  html += "<p class=\"verdict\">" + xml_escaped(verdict.text) + "</p>\n" + hint_html(verdict.hint);
  for (const auto& section : report_sections(report)) {
    std::string charts;
    if (section.title == "Training") charts = phases_html(report) + charts_html(training_charts(report));
    if (section.title == "Nodes") charts = charts_html(node_charts(report));
    html += section_html(section, charts);
  }
  if (!tunnel.empty()) {
    html += section_html({.title = "TensorBoard", .sentences = {tensorboard_words(report, tunnel)}}, {});
  }
  return html + "</article>\n";
}

std::string comparison_html(const RunComparison& comparison) {
  if (comparison.rows.empty()) return {};
  std::string html = "<section>\n" + element("h2", "Side by side") + table_html(scaling_table(comparison.rows));
  for (const auto& sentence : comparison.sentences) html += element("p", sentence);
  return html + charts_html({scaling_chart(comparison.rows)}) + "</section>\n";
}

std::string sweep_html(const SweepReport& sweep) {
  std::string html = "<section>\n" + element("h2", "Trials of " + sweep.name);
  for (const auto& sentence : sweep_sentences(sweep)) html += element("p", sentence);
  return html + table_html(sweep_table(sweep)) + "</section>\n";
}

}  // namespace

std::string report_html(const ReportPage& page) {
  std::string title;
  for (const auto& run : page.runs) title += (title.empty() ? "" : ", ") + run.name;
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
      element("title", title) + "<style>" + std::string(kStyle) + "</style>\n</head>\n<body>\n<main>\n";
  if (page.runs.size() > 1) html += element("h1", counted(std::ssize(page.runs), "run"));
  if (page.sweep) html += sweep_html(*page.sweep);
  html += comparison_html(page.comparison);
  for (std::size_t i = 0; i < page.runs.size(); ++i) html += run_html(page.runs[i], page.tunnels[i]);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace lockstep
