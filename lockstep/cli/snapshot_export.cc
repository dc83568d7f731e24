// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/cli/snapshot_place.h"
#include "lockstep/format/snapshot/snapshot_names.h"
#include "lockstep/format/torch/writer.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct ExportOptions {
  std::string run;
  std::string to;
  bool weights = false;
  bool averaged = false;
  bool json = false;
};

enum class Format { kTorch, kSafetensors };

Format format_of(const fs::path& to) {
  constexpr std::array<const char*, 4> kTorchNames = {".pt", ".pth", ".bin", ".ckpt"};
  const std::string extension = to.extension().string();
  if (extension == ".safetensors") return Format::kSafetensors;
  for (const auto* name : kTorchNames) {
    if (extension == name) return Format::kTorch;
  }
  throw Error(ErrorKind::kUsage, "--to is '" + to.string() + "', want a file that ends in .pt or .safetensors",
              "for example --to model.pt, which torch.load() reads");
}

fs::path snapshot_in(const fs::path& run, const Log& log) {
  std::error_code error;
  if (!fs::is_directory(run, error)) {
    throw Error(ErrorKind::kIo, "'" + run.string() + "' is not a folder, want a run folder or a snapshot",
                "check the spelling; `train` prints where its run lies");
  }
  if (auto snapshot = whole_snapshot(run, log)) return *snapshot;
  throw Error(ErrorKind::kData, "'" + run.string() + "' holds no snapshot, want at least one",
              "give a run folder, its snapshots folder, or a snapshot");
}

/// Returns the snapshot's facts about its optimizer. The optimizer's tensors are in `state`.
SavedOptimizer optimizer_of(const fs::path& snapshot, const SafetensorsFile& state) {
  const fs::path file = snapshot / "state.json";
  try {
    const auto json = Json::parse(text_of_file(file));
    const Json& found = json.at("optimizer");
    SavedOptimizer optimizer{.name = found.at("name"), .groups = {}, .state = state.tensors()};
    for (const auto& group : found.at("groups")) {
      optimizer.groups.push_back({.settings = group.at("settings"), .parameters = group.at("params")});
    }
    return optimizer;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kData, file.string() + " does not hold the optimizer's settings: " + error.what(),
                "--weights exports the model alone; a snapshot that this version of Lockstep writes has them");
  }
}

/// Returns the averaged weights that the snapshot has besides the last step's weights.
///
/// Throws: Error(kData) if the snapshot has no averages, or if they lack their BatchNorm statistics.
SafetensorsFile averages_of(const fs::path& snapshot) {
  const fs::path file = snapshot / kExtensionsFile;
  if (fs::exists(file)) {
    auto averages = SafetensorsFile::open(file);
    const auto* count = averages.find(kAveragePrefix + "count");
    if (averages.find(kAveragePrefix + "lacks_statistics") != nullptr) {
      throw Error(ErrorKind::kData,
                  snapshot.string() +
                      " has averaged weights without their BatchNorm statistics: the run was stopped "
                      "before the pass that takes them",
                  "continue the run to its end, or leave out --averaged to export the last weights");
    }
    if (count != nullptr && !std::ranges::all_of(count->bytes, [](std::byte each) { return each == std::byte{0}; })) {
      return averages;
    }
  }
  throw Error(ErrorKind::kData, snapshot.string() + " has no averaged weights",
              "leave out --averaged; trainer.average = \"ema\" or \"swa\" keeps such");
}

std::vector<TensorEntry> averaged(std::vector<TensorEntry> tensors, const SafetensorsFile& averages) {
  for (auto& tensor : tensors) {
    const auto* average = averages.find(kAveragePrefix + tensor.name);
    if (average == nullptr) continue;
    tensor.dtype = average->dtype;
    tensor.bytes = average->bytes;
  }
  return tensors;
}

void print(const ExportOptions& options, const fs::path& snapshot, std::size_t tensors, bool has_optimizer) {
  const auto step = parsed_snapshot_name(fs::canonical(snapshot).filename().string());
  const auto bytes = fs::file_size(options.to);
  if (options.json) {
    return print_json({{"schema", 1},
                       {"snapshot", snapshot.string()},
                       {"step", step ? Json(step->step) : Json()},
                       {"to", options.to},
                       {"tensors", tensors},
                       {"optimizer", has_optimizer},
                       {"bytes", bytes}});
  }
  print_text(options.to + ": " + std::to_string(tensors) + " tensors" + (has_optimizer ? " and the optimizer" : "") +
             (step ? " of step " + std::to_string(step->step) : "") + ", " + human_bytes(bytes) + "\n");
}

void export_snapshot(const ExportOptions& options, const Log& log) {
  const Format format = format_of(options.to);
  const fs::path snapshot = snapshot_in(options.run, log);
  const auto model = SafetensorsFile::open(snapshot / "model.safetensors");
  const bool has_optimizer = format == Format::kTorch && !options.weights && !options.averaged;
  std::optional<SafetensorsFile> averages;
  if (options.averaged) averages = averages_of(snapshot);
  const auto tensors = averages ? averaged(model.tensors(), *averages) : model.tensors();
  if (format == Format::kSafetensors) {
    write_safetensors_file(options.to, tensors);
  } else if (has_optimizer) {
    const auto state = SafetensorsFile::open(snapshot / "optimizer.safetensors");
    write_torch_file(options.to, tensors, optimizer_of(snapshot, state));
  } else {
    write_torch_file(options.to, tensors);
  }
  print(options, snapshot, tensors.size(), has_optimizer);
}

}  // namespace

void add_snapshot_export(CLI::App& snapshot, Context& context) {
  auto* command =
      snapshot.add_subcommand("export", "Export a run's latest snapshot, or a given one, to a file that Python reads");
  auto options = std::make_shared<ExportOptions>();
  command
      ->add_option("RUN", options->run,
                   "A run folder or its snapshots folder, for the latest snapshot, or one snapshot")
      ->required();
  command->add_option("--to", options->to, "FILE.pt, for torch.load(), or FILE.safetensors, which holds weights only")
      ->type_name("FILE")
      ->required();
  command->add_flag("--weights", options->weights, "Export the model's state_dict alone, without the optimizer's");
  command->add_flag("--averaged", options->averaged,
                    "Export the averaged weights that validation used (EMA or SWA), without the optimizer's state");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->footer(
      examples_section({{"lockstep snapshot export runs/mnist-1 --to weights.pt --weights",
                         "torch.load(\"weights.pt\") returns the model's state_dict."},
                        {"lockstep snapshot export runs/mnist-1 --to model.pt",
                         "torch.load(\"model.pt\") returns a dict with two state_dicts, \"model\" and \"optimizer\"."}},
                       static_cast<std::size_t>(columns_of(context.env))));
  command->callback([options, &context] { export_snapshot(*options, context.log); });
}

}  // namespace lockstep::cli
