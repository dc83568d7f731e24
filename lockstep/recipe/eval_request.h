// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The command line of `eval` or `predict`, which `lockstep` passes on to `lockstep-train`.
struct EvalRequest {
  std::string run;
  std::vector<std::string> sets;  ///< "a.b=v", over the run's own recipe.
  std::string split;              ///< A split's name. If empty, validation. For new data without a validation part on
                                  ///< disk, all of it.
  std::string snapshot =
      "auto";        ///< best, latest, a path, or auto. auto is the best one if the run kept it, else the latest.
  std::string data;  ///< predict: another data set of the same kind. Empty for the run's own.
  std::string out;   ///< predict: the CSV file. Empty for standard output.
  int devices = 1;   ///< Ranks of a node.
  bool json = false;
};

/// Adds the options to a CLI11 sub-command. It is a template, so that this header does not depend on CLI11.
template <typename App>
void bind_options(App& app, EvalRequest& request, bool predicts) {
  app.add_option("FOLDER", request.run, "The run's folder")->required();
  app.add_option("--set", request.sets, "Set one setting of the run's recipe; may be repeated")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  if (predicts) {
    app.add_option(
           "--data", request.data,
           "A data set of the kind that the run was trained on, with or without labels (default: the run's own)")
        ->type_name("PATH");
    app.add_option("--out", request.out, "The CSV file to write (default: standard output)")->type_name("FILE");
  }
  app.add_option("--split", request.split,
                 predicts ? "train, validation or test (default: validation, or all of --data if that has no split)"
                          : "train, validation or test (default: validation)")
      ->type_name("SPLIT");
  app.add_option(
         "--snapshot", request.snapshot,
         "best, latest, a snapshot's path, or auto: the best if the run kept one, else the latest (default: auto)")
      ->type_name("WHICH");
  app.add_option("--devices", request.devices, "Ranks on each node (default: 1)")->type_name("N");
  app.add_flag("--json", request.json, "End with one JSON object on standard output");
}

/// The request as arguments.
inline std::vector<std::string> arguments_of(const EvalRequest& request) {
  std::vector<std::string> out = {request.run, "--snapshot", request.snapshot};
  if (!request.split.empty()) out.insert(out.end(), {"--split", request.split});
  for (const auto& text : request.sets) out.insert(out.end(), {"--set", text});
  if (!request.data.empty()) out.insert(out.end(), {"--data", request.data});
  if (!request.out.empty()) out.insert(out.end(), {"--out", request.out});
  if (request.json) out.emplace_back("--json");
  return out;
}

}  // namespace lockstep
