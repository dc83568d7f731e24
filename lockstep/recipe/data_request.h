// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The command line of `data convert`, `verify` or `info`, which `lockstep` passes on to `lockstep-data`.
struct DataRequest {
  std::string path;  ///< A data set's folder or file. For `verify` and `info` also a recipe.
  std::string to;    ///< convert
  std::string kind;  ///< verify, info: as data.kind. If empty, the files tell.
  std::vector<std::string> sets;
  int threads = 0;       ///< verify: number of threads. 0 for one per CPU.
  bool strict = false;   ///< convert
  bool by_name = false;  ///< convert
  bool json = false;
};

/// The commands that take a DataRequest, in the order of the help.
enum class DataCommand { kConvert, kVerify, kInfo };

/// Adds the options to a CLI11 sub-command. It is a template, so that this header does not depend on CLI11.
template <typename App>
void bind_options(App& app, DataRequest& request, DataCommand command) {
  if (command == DataCommand::kConvert) {
    app.add_option("FOLDER", request.path,
                   "The images: a folder with train/ and val/ in it, or with one folder per class")
        ->required();
    app.add_option("FILE", request.to, "The HDF5 file to write, for example set.h5")->required();
    app.add_flag("--strict", request.strict, "Stop at a file that is not an image, instead of leaving it out");
    app.add_flag("--by-name", request.by_name,
                 "Recognize images by .jpg, .jpeg or .png in their names, without opening them");
  } else {
    app.add_option("PATH", request.path, "The data set: its folder or file, or a recipe that names it")->required();
    app.add_option("--kind", request.kind,
                   "Data format: idx, folder, cifar10, cifar100, hdf5, text or csv (default: recognized)")
        ->type_name("KIND");
    app.add_option("--set", request.sets, "Set one setting of the recipe; may be repeated")
        ->type_name("TABLE.KEY=VALUE")
        ->allow_extra_args(false);
  }
  if (command == DataCommand::kVerify) {
    app.add_option("--threads", request.threads, "Threads that read and decode (default: one per CPU)")->type_name("N");
  }
  app.add_flag("--json", request.json, "End with one JSON object on standard output");
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
