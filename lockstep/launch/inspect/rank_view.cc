// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/rank_view.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "lockstep/launch/inspect/flight_recorder.h"
#include "lockstep/launch/inspect/process_facts.h"
#include "lockstep/launch/inspect/python_stack.h"
#include "lockstep/watch/native_stack.h"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPySpy{3};
constexpr std::size_t kMostBelow = 64;

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json process_object(const ProcessFacts& facts) {
  return {{"state", std::string(1, facts.state)},
          {"command", facts.command},
          {"wait", text_or_null(describe_wait(facts))},
          {"system_call", text_or_null(facts.system_call)},
          {"file", text_or_null(facts.file)},
          {"wait_channel", text_or_null(facts.wait_channel)},
          {"kernel_stack", facts.kernel_stack.empty() ? json(nullptr) : json(facts.kernel_stack)},
          {"threads", facts.threads},
          {"cpu_s", facts.cpu_s},
          {"resident_bytes", facts.resident_bytes}};
}

void add_stack(json& view, const char* key, const ThreadStack& stack) {
  view[key] = stack.frames.empty() ? json(nullptr) : json(stack.frames);
  view[std::string(key) + "_note"] = text_or_null(stack.note);
}

void add_python(json& view, pid_t pid, const PageLayout* layout, const Environment& env) {
  const auto written = layout != nullptr ? read_text_stack(*layout, pid) : ThreadStack{};
  if (!written.frames.empty() || !runs_python(pid)) return add_stack(view, "python", written);
  auto read = read_python_stack(pid, env, kPySpy);
  if (read.frames.empty() && !written.note.empty()) read.note = written.note + "; " + read.note;
  add_stack(view, "python", read);
}

void add_flight_record(json& view, pid_t pid, int rank) {
  view["flight_record"] = nullptr;
  const auto path = flight_record_path(variables_of_process(pid), rank);
  if (const auto found = read_flight_record(path)) view["flight_record"] = describe(*found);
}

json one(pid_t pid, int rank, const PageLayout* layout, const Environment& env) {
  json view = json::object();
  const pid_t thread = layout != nullptr ? layout->thread.load() : pid;
  view["process"] = process_object(read_process_facts(pid, thread));
  add_stack(view, "stack", layout != nullptr ? read_native_stack(*layout, pid) : ThreadStack{});
  add_python(view, pid, layout, env);
  add_flight_record(view, pid, rank);
  return view;
}

}  // namespace

json view_of(const SeenRank& seen, const Environment& env) {
  auto view = one(seen.pid, seen.rank, seen.layout, env);
  auto below = json::array();
  // A process that writes a page is a rank. A program without a page may be a launcher of ranks, such as torchrun.
  if (seen.layout == nullptr || seen.layout->pid.load() == 0) {
    for (const auto pid : processes_below(seen.pid, kMostBelow)) {
      const auto variables = variables_of_process(pid);
      const auto own = variables.get("RANK");
      // A rank's helper processes, such as its loader's workers, have the variable too.
      const bool is_helper = own == variables_of_process(seen.pid).get("RANK");
      if (!own || is_helper || words_of_process(pid).empty()) continue;
      auto each = one(pid, variables.get_int("RANK").value_or(-1), nullptr, env);
      each["rank"] = *own;
      each["pid"] = pid;
      below.push_back(std::move(each));
    }
  }
  view["below"] = below.empty() ? json(nullptr) : std::move(below);
  return view;
}

}  // namespace lockstep
