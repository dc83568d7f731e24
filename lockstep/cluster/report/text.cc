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

constexpr std::size_t kWidth = 100;      // Of what is written in words; tables are as wide as they must be.
constexpr std::size_t kWidestName = 24;  // Of a fact; its text begins on the next line if the name is longer.

std::string indented(const std::string& text) {
  std::string out;
  for (const auto& line : split(text, '\n')) {
    if (!line.empty()) out += "  " + line + "\n";
  }
  return out;
}

/// Writes `text` from column `at` on, broken into lines of the page's width. `head` comes before the first line.
std::string paragraph(const std::string& head, std::size_t at, const std::string& text) {
  return list_row(head, at, text, kWidth);
}

std::string text_of(const ReportSection& section) {
  std::string text = "\n" + section.title + "\n";
  std::size_t width = 0;
  for (const auto& fact : section.facts) width = std::max(width, width_of(fact.name));
  const std::size_t at = 2 + std::min(width, kWidestName) + 2;
  for (const auto& fact : section.facts) {
    text += paragraph("  " + fact.name, at, fact.text);
    if (!fact.hint.empty()) text += paragraph("", at, "Try: " + fact.hint);
  }
  for (const auto& sentence : section.sentences) text += paragraph("", 2, sentence);
  for (const auto& line : section.lines) text += "  " + line + "\n";
  if (section.table.size() > 1) text += indented(text_table(section.table));
  return text;
}

std::string text_of(const RunReport& report, const std::string& tunnel) {
  const auto verdict = verdict_of(report);
  std::string text = wrapped(report.name + ": " + verdict.text, kWidth, "");
  if (!verdict.hint.empty()) text += paragraph("", 2, "Try: " + verdict.hint);
  for (const auto& section : report_sections(report)) text += text_of(section);
  if (!tunnel.empty()) text += "\nTensorBoard\n" + paragraph("", 2, tensorboard_words(report, tunnel));
  return text;
}

std::string text_of(const SweepReport& sweep) {
  std::string text = wrapped(sweep.name + ": " + joined(sweep_sentences(sweep), " "), kWidth, "") + "\n" +
                     indented(text_table(sweep_table(sweep)));
  return text + paragraph("", 2, "`lockstep report " + sweep.name + "/TRIAL` tells more of one.");
}

}  // namespace

std::string tensorboard_words(const RunReport& report, const std::string& tunnel) {
  return "where you log in: tensorboard --logdir " + shell_quoted({std::filesystem::absolute(report.path).string()}) +
         "; from your own machine: " + tunnel + "; then open http://localhost:" + kTensorboardPort;
}

std::string report_text(const ReportPage& page) {
  if (page.sweep) return text_of(*page.sweep);
  std::string text;
  for (std::size_t i = 0; i < page.runs.size(); ++i)
    text += (i == 0 ? "" : "\n\n") + text_of(page.runs[i], page.tunnels[i]);
  if (page.comparison.rows.empty()) return text;
  text += "\n\nSide by side\n" + indented(text_table(scaling_table(page.comparison.rows)));
  for (const auto& sentence : page.comparison.sentences) text += paragraph("", 2, sentence);
  return text;
}

}  // namespace lockstep
