// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/node_findings.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kMost = 100;
constexpr std::string_view kHint = "hint: ";

}  // namespace

std::string NodeFinding::fact() const {
  return std::string(trimmed(std::string_view(text).substr(0, text.find(kHint))));
}

std::string NodeFinding::hint() const {
  const auto at = text.find(kHint);
  return at == std::string::npos ? std::string()
                                 : std::string(trimmed(std::string_view(text).substr(at + kHint.size())));
}

void NodeFindings::take(const TelemetryLine& line) {
  if (line.event == "warning" && all_.size() < kMost) {
    all_.push_back({.node = line.node, .code = line.code, .text = line.text, .since = line.time});
  } else if (line.event == "warning_over") {
    const auto open =
        std::ranges::find_if(all_, [&](const auto& each) { return each.code == line.code && !each.over; });
    if (open != all_.end()) open->over = line.time;
  }
}

std::vector<NodeFinding> NodeFindings::open() const {
  std::vector<NodeFinding> open;
  std::ranges::copy_if(all_, std::back_inserter(open), [](const NodeFinding& each) { return !each.over; });
  return open;
}

}  // namespace lockstep
