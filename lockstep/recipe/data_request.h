// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// What `data convert`, `verify` or `info` was asked for on the command line, by `lockstep` and by the `lockstep-data`
/// that it hands over to.
struct DataRequest {
  std::string path;  ///< A data set's folder or file; a recipe too for `verify` and `info`.
  std::string to;    ///< convert
  std::string kind;  ///< verify, info: as data.kind; empty: told from what lies there.
  std::vector<std::string> sets;
  int threads = 0;       ///< verify; 0: one for each CPU.
  bool strict = false;   ///< convert
  bool by_name = false;  ///< convert
  bool json = false;
};

/// The commands that take one, in the order of the help.
enum class DataCommand { kConvert, kVerify, kInfo };

/// Binds the options to a CLI11 sub-command (a template, so that nothing here depends on the parser).
template <typename App>
void bind_options(App& app, DataRequest& request, DataCommand command) {
  if (command == DataCommand::kConvert) {
    app.add_option("folder", request.path, "The folder, with train/ and val/ in it, or with a folder for each class")
        ->required();
    app.add_option("file", request.to, "The HDF5 file to write: set.h5")->required();
    app.add_flag("--strict", request.strict, "A file that is no image is an error instead of being left out");
    app.add_flag("--by-name", request.by_name,
                 "What is called .jpg, .jpeg or .png is an image; nothing is opened first");
  } else {
    app.add_option("path", request.path, "The data set's folder or file, or a recipe")->required();
    app.add_option("--kind", request.kind,
                   "idx, folder, cifar10, cifar100, hdf5, text or csv; by default what lies there tells");
    app.add_option("--set", request.sets, "Overrides a setting of the recipe: table.key=value; may be repeated")
        ->allow_extra_args(false);
  }
  if (command == DataCommand::kVerify) {
    app.add_option("--threads", request.threads, "What reads and decodes at once; by default one for each CPU");
  }
  app.add_flag("--json", request.json, "Ends with one JSON object on standard output");
}

/// The request as arguments.
inline std::vector<std::string> arguments_of(const DataRequest& request) {
  std::vector<std::string> out = {request.path};
  if (!request.to.empty()) out.push_back(request.to);
  if (!request.kind.empty()) out.insert(out.end(), {"--kind", request.kind});
  for (const auto& text : request.sets) out.insert(out.end(), {"--set", text});
  if (request.threads != 0) out.insert(out.end(), {"--threads", std::to_string(request.threads)});
  if (request.strict) out.emplace_back("--strict");
  if (request.by_name) out.emplace_back("--by-name");
  if (request.json) out.emplace_back("--json");
  return out;
}

}  // namespace lockstep
