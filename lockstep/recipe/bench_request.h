// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The command line of `bench loader`, which `lockstep` passes on to `lockstep-data`.
struct LoaderBenchRequest {
  std::vector<std::string> paths;  ///< Data sets' folders or files, or recipes.
  std::string kind;                ///< As data.kind. If empty, the files tell.
  std::vector<std::string> sets;
  std::vector<std::string> transforms;  ///< Instead of the recipe's.
  std::vector<int> workers = {0, 2};
  int batch = 64;
  int epochs = 3;
  bool json = false;
};

/// Adds the options to a CLI11 sub-command. It is a template, so that this header does not depend on CLI11.
template <typename App>
void bind_options(App& app, LoaderBenchRequest& request) {
  app.add_option("PATH", request.paths, "Data sets or recipes to compare: folders, files or names")->required();
  app.add_option("--kind", request.kind,
                 "Data format: idx, folder, cifar10, cifar100, hdf5, text or csv (default: recognized)")
      ->type_name("KIND");
  app.add_option("--set", request.sets, "Set one setting of the recipe; may be repeated")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--transform", request.transforms,
                 "A transform, in place of the recipe's: 'resize(256, 256)'; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--workers", request.workers, "Numbers of decoding threads to measure: 0,2,4")
      ->type_name("N,N…")
      ->delimiter(',');
  app.add_option("--batch", request.batch, "Samples in a batch")->type_name("N");
  app.add_option("--epochs", request.epochs, "Timed passes over the data, after one that fills the page cache")
      ->type_name("N");
  app.add_flag("--json", request.json, "End with one JSON object on standard output");
}

/// The request as arguments.
inline std::vector<std::string> arguments_of(const LoaderBenchRequest& request) {
  std::vector<std::string> out = request.paths;
  if (!request.kind.empty()) out.insert(out.end(), {"--kind", request.kind});
  for (const auto& text : request.sets) out.insert(out.end(), {"--set", text});
  for (const auto& text : request.transforms) out.insert(out.end(), {"--transform", text});
  for (const int each : request.workers) out.insert(out.end(), {"--workers", std::to_string(each)});
  out.insert(out.end(), {"--batch", std::to_string(request.batch), "--epochs", std::to_string(request.epochs)});
  if (request.json) out.emplace_back("--json");
  return out;
}

}  // namespace lockstep
