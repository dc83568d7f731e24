// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/view_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void add_stack(std::vector<std::string>& lines, const json& view, const char* key, const std::string& title) {
  constexpr std::size_t kFrames = 10;
  const auto frames = view.find(key);
  if (frames == view.end() || !frames->is_array() || frames->empty()) {
    const auto note = text_at(view, (std::string(key) + "_note").c_str());
    if (!note.empty()) lines.push_back("no " + title + ": " + note);
    return;
  }
  lines.push_back(title + ", innermost first:");
  for (std::size_t i = 0; i < std::min(kFrames, frames->size()); ++i) {
    if ((*frames)[i].is_string()) lines.push_back("  " + (*frames)[i].get<std::string>());
  }
}

}  // namespace

std::vector<std::string> view_lines(const json& view) {
  std::vector<std::string> lines;
  if (!view.is_object()) return lines;
  if (const auto process = view.find("process"); process != view.end() && process->is_object()) {
    const auto wait = text_at(*process, "wait");
    if (!wait.empty()) lines.push_back("its thread is " + wait);
  }
  if (const auto record = text_at(view, "flight_record"); !record.empty()) {
    lines.push_back("PyTorch's flight recorder: " + record);
  }
  add_stack(lines, view, "python", "Python stack");
  add_stack(lines, view, "stack", "native stack");
  const auto below = view.find("below");
  if (below == view.end() || !below->is_array()) return lines;
  for (const auto& each : *below) {
    if (!each.is_object()) continue;
    lines.push_back("rank " + text_at(each, "rank") + " below it (process " + std::to_string(each.value("pid", -1)) +
                    "):");
    for (const auto& line : view_lines(each)) lines.push_back("  " + line);
  }
  return lines;
}

}  // namespace lockstep
