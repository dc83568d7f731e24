// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/text_table.h"
#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// A part of a report, for text and for a page alike.
struct ReportSection {
  struct Fact {
    std::string name;
    std::string text;
    std::string hint{};  ///< Advice, separate from the facts.
  };
  std::string title{};
  std::vector<Fact> facts{};
  std::vector<std::string> sentences{};
  std::vector<std::string> lines{};  ///< As a program wrote them.
  TableRows table{};                 ///< Empty, or with a head.
};

/// Returns the sections for which the run has content, out of "Run", "Asked and used", "Training", "Epochs", "Nodes",
/// "Devices" and "Findings".
std::vector<ReportSection> report_sections(const RunReport& report);

/// Returns a sentence on whether the first epoch was slower than later ones, by how much, and why. Empty if there are
/// no later epochs.
std::string first_epoch_words(const TrainingReport& training);

}  // namespace lockstep
