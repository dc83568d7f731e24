// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cli/snapshot_place.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/record/ask_run.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_names.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct CheckOptions {
  std::string path;
  bool json = false;
};

struct Found {
  fs::path path;
  std::optional<std::int64_t> step;  ///< Nothing if the folder was renamed.
  SnapshotCheck check;

  bool is_whole() const { return check.faults.empty(); }
};

/// Returns the snapshots that `path` names. `path` is a run folder, a `snapshots` folder or one snapshot.
///
/// Throws: Error(kIo) if there is no such folder.
std::vector<Found> checked_in(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw Error(ErrorKind::kIo,
                "'" + path.string() + "' is not a folder, want a run folder, its snapshots folder, or a snapshot",
                "check the spelling; `train` prints where its run lies");
  }
  std::vector<Found> found;
  const bool is_run = fs::is_directory(path / "snapshots", error);
  const auto name = parsed_snapshot_name(fs::canonical(path, error).filename().string());
  if (!is_run && (name || fs::exists(path / kManifestName, error))) {
    found.push_back({path, name ? std::optional(name->step) : std::nullopt, checked_snapshot(path)});
    return found;
  }
  for (const auto& entry : listed_snapshots(is_run ? path / "snapshots" : path)) {
    found.push_back({entry.path, entry.step, checked_snapshot(entry.path)});
  }
  return found;
}

std::string line_of(const Found& found) {
  const auto padded = [](std::string text, std::size_t width) {
    return text.size() < width ? text.insert(0, width - text.size(), ' ') : text;
  };
  const std::string step = found.step ? "step " + std::to_string(*found.step) : found.path.filename().string();
  std::string line = padded(step, 12) + padded(human_bytes(found.check.bytes), 12) +
                     padded(std::to_string(found.check.files) + " files", 10) + "  " +
                     (found.is_whole() ? "whole" : "not whole: " + joined(found.check.faults, "; "));
  if (!found.check.extra.empty()) line += "; not in MANIFEST: " + joined(found.check.extra, ", ");
  return line + "\n";
}

void print(const std::vector<Found>& all, const CheckOptions& options) {
  if (!options.json) {
    std::string text;
    for (const auto& found : all) text += line_of(found);
    print_text(text);
    return;
  }
  nlohmann::json list = nlohmann::json::array();
  for (const auto& found : all) {
    list.push_back({{"path", found.path.string()},
                    {"step", found.step ? nlohmann::json(*found.step) : nlohmann::json()},
                    {"bytes", found.check.bytes},
                    {"files", found.check.files},
                    {"whole", found.is_whole()},
                    {"faults", found.check.faults},
                    {"extra", found.check.extra}});
  }
  print_json({{"schema", 1},
              {"path", options.path},
              {"whole", !all.empty() && std::ranges::all_of(all, &Found::is_whole)},
              {"snapshots", std::move(list)}});
}

void verify(const CheckOptions& options) {
  const auto all = checked_in(options.path);
  print(all, options);
  if (all.empty()) {
    throw Error(ErrorKind::kData, "'" + options.path + "' holds no snapshot, want at least one",
                "give a run folder, its snapshots folder, or a snapshot");
  }
  const auto damaged = std::ranges::count_if(all, std::not_fn(&Found::is_whole));
  if (damaged == 0) return;
  const Found& first = *std::ranges::find_if(all, std::not_fn(&Found::is_whole));
  std::string fact = first.path.string() + " is not whole: " + joined(first.check.faults, "; ");
  if (damaged > 1) fact += "; " + std::to_string(damaged) + " of " + std::to_string(all.size()) + " are damaged";
  throw Error(
      ErrorKind::kData, fact,
      "`train --resume auto` goes on from the newest whole one; remove a damaged one once you have looked at it");
}

struct NowOptions {
  std::string run;
  double wait_s = 600;
  bool json = false;
};

void add_snapshot_now(CLI::App& snapshot, Context& context) {
  auto* command =
      snapshot.add_subcommand("now", "Have a running training write a snapshot, and wait until it is complete");
  auto options = std::make_shared<NowOptions>();
  command->add_option("RUN", options->run, "The run: its folder, its name or its Slurm job id")->required();
  command->add_option("--wait", options->wait_s, "The longest time to wait, at least 1 (default: 600)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 1e6));
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->callback([options, &context] {
    const auto run = named_folder(options->run, run_places(context.env));
    const auto answer = snapshot_now(run, std::chrono::milliseconds(static_cast<std::int64_t>(options->wait_s * 1000)));
    if (options->json) return print_json(answer);
    print_text(answer.value("snapshot", "") + "\n");
  });
}

}  // namespace

void add_snapshot(CLI::App& app, Context& context) {
  auto* snapshot = app.add_subcommand("snapshot", "List, verify, write, compare and export snapshots");
  snapshot->require_subcommand(1);
  const auto add = [snapshot](const std::string& name, const std::string& help, const std::string& argument,
                              void (*act)(const CheckOptions&)) {
    auto* command = snapshot->add_subcommand(name, help);
    auto options = std::make_shared<CheckOptions>();
    command->add_option(argument, options->path, "A run folder, its snapshots folder, or one snapshot")->required();
    command->add_flag("--json", options->json, "Print one JSON object on standard output");
    command->callback([options, act] { act(*options); });
  };
  add("ls", "List snapshots: step, size, files, and whether each is intact", "RUN",
      [](const CheckOptions& options) { print(checked_in(options.path), options); });
  add("verify", "Verify the checksum of every byte; exit 0 only if all are intact", "PATH", verify);
  add_snapshot_now(*snapshot, context);
  add_snapshot_diff(*snapshot, context);
  add_snapshot_export(*snapshot, context);
}

}  // namespace lockstep::cli
