// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/sweep_record.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::filesystem::path path_in(const std::filesystem::path& folder) { return folder / "sweep.json"; }

}  // namespace

void keep_sweep(const std::filesystem::path& folder, const std::vector<SweptTrial>& trials) {
  auto list = json::array();
  for (const auto& trial : trials) list.push_back({{"name", trial.name}, {"sets", trial.sets}});
  const json object = {{"schema", 1}, {"trials", list}};
  write_whole(path_in(folder), json_text(object, 2) + "\n", false);
}

std::optional<std::vector<SweptTrial>> kept_sweep(const std::filesystem::path& folder) {
  const auto path = path_in(folder);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    std::vector<SweptTrial> trials;
    const auto object = json::parse(text_of_file(path));
    for (const auto& each : object.at("trials")) {
      trials.push_back({.name = each.at("name"), .sets = each.at("sets")});
    }
    return trials;
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kData, "'" + path.string() + "' holds no record of a sweep: " + error.what(),
                "name its trials' folders one by one");
  }
}

}  // namespace lockstep
