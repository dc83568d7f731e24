// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool holds_run(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(std::array{"recipe.toml", "layout.json", "metrics.jsonl"},
                             [&](const char* file) { return fs::exists(folder / file, ignored); });
}

fs::path run_dir(std::string_view recipe, std::string_view key, const Environment& env) {
  std::string name(recipe);
  name.append("-").append(key);
  return runs_root(env) / fit_for_a_file(name);
}

}  // namespace

RunFolder RunFolder::create(const fs::path& path) {
  RunFolder folder(path);
  make_durable_folder(path);
  make_durable_folder(folder.snapshots());
  make_folder(folder.logs());
  // On a full disk, folders and empty files can still be created. So this writes a file with content, to find a full
  // disk before the first step.
  const fs::path probe = path / (".probe-" + std::to_string(::getpid()));
  write_whole(probe, std::string(4096, '\n'), false);
  ::unlink(probe.c_str());
  return folder;
}

RunFolder RunFolder::open(const fs::path& path) {
  check_may_read(path);
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw Error(ErrorKind::kIo, "there is no run folder '" + path.string() + "'",
                "check the spelling; runs lie under $LOCKSTEP_RUNS, else under runs/");
  }
  if (!holds_run(path)) {
    throw Error(ErrorKind::kIo, "'" + path.string() + "' holds no run: no recipe.toml, layout.json or metrics.jsonl",
                "give the folder that train printed at its end");
  }
  return RunFolder(path);
}

fs::path RunFolder::rank_log(std::int64_t rank) const { return logs() / (rank_name(rank) + ".log"); }

void RunFolder::finish(std::string_view result_json) const {
  LOCKSTEP_ASSERT(nlohmann::json::accept(result_json));
  write_whole(result_path(), std::string(trimmed(result_json)) + '\n');
}

bool RunFolder::is_finished() const {
  std::error_code ignored;
  return fs::exists(result_path(), ignored);
}

std::optional<std::string> RunFolder::result() const {
  if (!is_finished()) return std::nullopt;
  std::string text(trimmed(text_of_file(result_path())));
  if (!nlohmann::json::parse(text, nullptr, false).is_object()) {
    throw Error(ErrorKind::kData, "'" + result_path().string() + "' holds no JSON object",
                "remove it: the run then continues from its last snapshot and writes it again");
  }
  return text;
}

fs::path runs_root(const Environment& env) { return env.get("LOCKSTEP_RUNS").value_or("runs"); }

fs::path rank_trace(const fs::path& run_dir, std::int64_t rank) {
  return run_dir / "trace" / (rank_name(rank) + ".pt.trace.json");
}

fs::path run_dir_of_job(std::string_view recipe, std::string_view job, const Environment& env) {
  return run_dir(recipe, job, env);
}

fs::path run_dir_at(std::string_view recipe, std::chrono::system_clock::time_point now, const Environment& env) {
  const fs::path first = run_dir(recipe, utc_stamp(now), env);
  fs::path path = first;
  std::error_code ignored;
  for (int i = 2; fs::exists(fs::symlink_status(path, ignored)); ++i) {
    path = first;
    path += '-';
    path += std::to_string(i);
  }
  return path;
}

std::vector<RunEntry> listed_runs(const fs::path& root) {
  std::error_code error;
  std::vector<RunEntry> runs;
  fs::directory_iterator it(root, error);
  if (error == std::errc::no_such_file_or_directory) return runs;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const fs::path path = it->path();
    if (holds_run(path)) runs.push_back({path, RunFolder::open(path).is_finished()});
  }
  if (error) {
    throw io_error("list", root, error.value());
  }
  std::ranges::sort(runs, {}, &RunEntry::path);
  return runs;
}

}  // namespace lockstep
