// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/text.h"

#include <algorithm>

#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/base/text_table.h"
#include "lockstep/cluster/report/page.h"
#include "lockstep/cluster/report/sections.h"
#include "lockstep/cluster/report/verdict.h"

namespace lockstep {
namespace {

std::string indented(const std::string& text) {
  std::string out;
  for (const auto& line : split(text, '\n')) {
    if (!line.empty()) out += "  " + line + "\n";
  }
  return out;
}

std::string text_of(const ReportSection& section) {
  std::string text = "\n" + section.title + "\n";
  std::size_t width = 0;
  for (const auto& fact : section.facts) width = std::max(width, width_of(fact.name));
  for (const auto& fact : section.facts) text += "  " + padded(fact.name, width + 2) + fact.text + "\n";
  for (const auto& sentence : section.sentences) text += "  " + sentence + "\n";
  if (section.table.size() > 1) text += indented(text_table(section.table));
  return text;
}

std::string text_of(const RunReport& report, const std::string& tunnel) {
  std::string text = report.name + ": " + verdict_of(report).text + "\n";
  for (const auto& section : report_sections(report)) text += text_of(section);
  if (!tunnel.empty()) text += "\nTensorBoard\n  " + tensorboard_words(report, tunnel) + "\n";
  return text;
}

}  // namespace

std::string tensorboard_words(const RunReport& report, const std::string& tunnel) {
  return "where you log in: tensorboard --logdir " + shell_quoted({std::filesystem::absolute(report.path).string()}) +
         "; from your own machine: " + tunnel + "; then open http://localhost:" + kTensorboardPort;
}

std::string report_text(const ReportPage& page) {
  std::string text;
  for (std::size_t i = 0; i < page.runs.size(); ++i)
    text += (i == 0 ? "" : "\n\n") + text_of(page.runs[i], page.tunnels[i]);
  if (page.comparison.rows.empty()) return text;
  text += "\n\nSide by side\n" + indented(text_table(scaling_table(page.comparison.rows)));
  for (const auto& sentence : page.comparison.sentences) text += "  " + sentence + "\n";
  return text;
}

}  // namespace lockstep
