// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/python_stack.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/launch/inspect/process_facts.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/program.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_program(const fs::path& path) { return ::access(path.c_str(), X_OK) == 0; }

/// Returns the last line of py-spy's message. The lines before it are a trace of py-spy's own source.
std::string reason_of(const ProcessResult& result) {
  constexpr int kLate = 124;
  constexpr int kKilled = 137;
  if (result.exit_code == kLate || result.exit_code == kKilled) return "py-spy took too long";
  for (const auto& line : split(result.errors, '\n')) {
    if (line.find("ermission") != std::string::npos) {
      return "the system forbids py-spy to read the process (" + std::string(trimmed(line)) +
             "); kernel.yama.ptrace_scope or a container's rules say so";
    }
  }
  return "py-spy failed: " + std::string(trimmed(last_line(result.errors)));
}

}  // namespace

bool runs_python(pid_t pid) {
  std::error_code error;
  const auto program = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", error).filename().string();
  if (!error && program.starts_with("python")) return true;
  return text_or_nothing("/proc/" + std::to_string(pid) + "/maps").find("/libpython") != std::string::npos;
}

std::optional<std::string> find_py_spy(pid_t pid, const Environment& env) {
  if (const auto found = program_in_path("py-spy", env)) return found;
  std::vector<fs::path> folders;
  if (const auto words = words_of_process(pid); !words.empty())
    folders.push_back(fs::path(words.front()).parent_path());
  if (const auto own = variables_of_process(pid).get("VIRTUAL_ENV")) folders.push_back(fs::path(*own) / "bin");
  for (const auto& folder : folders) {
    if (folder.is_absolute() && is_program(folder / "py-spy")) return folder / "py-spy";
  }
  return std::nullopt;
}

ThreadStack py_spy_frames(std::string_view text, pid_t pid) {
  const auto threads = json::parse(text, nullptr, false);
  if (!threads.is_array() || threads.empty()) return {.note = "py-spy gave no threads"};
  const json* chosen = &threads.front();
  for (const auto& each : threads) {
    if (each.is_object() && each.contains("os_thread_id") && each["os_thread_id"] == pid) chosen = &each;
  }
  ThreadStack stack;
  try {
    for (const auto& frame : chosen->at("frames")) {
      const auto path = fs::path(frame.at("filename").get<std::string>());
      stack.frames.push_back(frame.at("name").get<std::string>() + " (" + path.filename().string() + ":" +
                             std::to_string(frame.at("line").get<int>()) + ")");
    }
  } catch (const json::exception&) {
    return {.note = "py-spy gave frames of another form"};
  }
  if (stack.frames.empty()) stack.note = "py-spy gave no frames";
  return stack;
}

ThreadStack read_python_stack(pid_t pid, const Environment& env, std::chrono::seconds patience) {
  const auto program = find_py_spy(pid, env);
  if (!program) return {.note = "py-spy is not there, so its Python lines are unknown; pip install py-spy"};
  try {
    const auto result = run_process({"timeout", "--kill-after=1", std::to_string(patience.count()), *program, "dump",
                                     "--nonblocking", "--json", "--pid", std::to_string(pid)},
                                    env);
    return result.exit_code == 0 ? py_spy_frames(result.output, pid) : ThreadStack{.note = reason_of(result)};
  } catch (const Error& error) {
    return {.note = std::string(error.fact())};
  }
}

}  // namespace lockstep
