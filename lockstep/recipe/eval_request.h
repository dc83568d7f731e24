// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// What `eval` or `predict` was asked for on the command line, by `lockstep` and by the `lockstep-train` that it hands
/// over to.
struct EvalRequest {
  std::string run;
  std::vector<std::string> sets;  ///< "a.b=v", over the run's own recipe.
  std::string split;              ///< Empty: validation; of new data all, if they have no validation part on disk.
  std::string snapshot =
      "auto";        ///< auto: the best one where the run kept it, else the latest; best, latest, or a path.
  std::string data;  ///< predict: another data set of the same kind; empty for the run's own.
  std::string out;   ///< predict: the CSV file; empty for standard output.
  int devices = 1;   ///< Ranks of a node.
  bool json = false;
};

/// Binds the options to a CLI11 sub-command (a template, so that nothing here depends on the parser).
template <typename App>
void bind_options(App& app, EvalRequest& request, bool predicts) {
  app.add_option("run", request.run, "The run's folder")->required();
  app.add_option("--set", request.sets, "Overrides a setting of the run's recipe: table.key=value; may be repeated")
      ->allow_extra_args(false);
  if (predicts) {
    app.add_option("--data", request.data,
                   "The data, of the run's own kind, with or without labels; by default those that it was trained on");
    app.add_option("--out", request.out, "The CSV file to write; by default standard output");
  }
  app.add_option("--split", request.split,
                 "train, validation, or test if the set has one; by default validation, of new data without one all");
  app.add_option("--snapshot", request.snapshot,
                 "auto (the best where there is one, else the latest), best, latest, or a snapshot's path");
  app.add_option("--devices", request.devices, "Ranks on each node");
  app.add_flag("--json", request.json, "Ends with one JSON object on standard output");
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
