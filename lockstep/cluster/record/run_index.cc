// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/run_index.h"

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>

#include "lockstep/base/cache_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{256} << 10;  // Beyond it, folders that are gone are dropped.

fs::path index_path(const Environment& env) { return cache_folder(env) / "runs"; }

}  // namespace

void remember_run(const fs::path& run_dir, const Environment& env) {
  const auto path = index_path(env);
  try {
    make_folder(path.parent_path());
    if (text_or_nothing(path).size() > kMostBytes) {
      std::string kept;
      for (const auto& each : remembered_runs(env)) kept += each.string() + "\n";
      write_whole(path, kept, false);
    }
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!file) return;
    const std::string line = run_dir.string() + "\n";
    write_all(file.get(), std::as_bytes(std::span(line)), path);
  } catch (const Error&) {
    // A failure is ignored. A full or read-only home folder must not keep a job from being submitted.
  }
}

std::vector<fs::path> remembered_runs(const Environment& env) {
  std::vector<fs::path> runs;
  for (const auto& line : split(text_or_nothing(index_path(env)), '\n')) {
    std::error_code ignored;
    if (line.empty() || std::ranges::find(runs, fs::path(line)) != runs.end()) continue;
    if (fs::is_directory(line, ignored)) runs.emplace_back(line);
  }
  return runs;
}

}  // namespace lockstep
