// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/train_request.h"

#include "lockstep/base/error.h"
#include "lockstep/recipe/builtin.h"
#include "lockstep/recipe/typed_value.h"

namespace lockstep {

Recipe recipe_of(const TrainRequest& request, const Environment& env, const std::filesystem::path& program) {
  auto overrides = overrides_of(request.sets);
  if (request.devices_given) {
    if (request.devices < 1) {
      throw Error(ErrorKind::kUsage, "--devices is " + std::to_string(request.devices) + ", want 1 or more",
                  "leave it out to use the recipe's or the machine's number");
    }
    overrides.push_back({"trainer.devices", std::to_string(request.devices), {SettingSource::kFlag, "--devices"}});
  }
  return Recipe::load(recipe_file(request.recipe, program), env, overrides);
}

std::vector<std::string> arguments_of(const TrainRequest& request, const std::string& run_dir) {
  std::vector<std::string> out = {request.recipe, "--resume", request.resume};
  for (const auto& text : request.sets) out.insert(out.end(), {"--set", text});
  if (request.devices_given) out.insert(out.end(), {"--devices", std::to_string(request.devices)});
  if (!request.find.empty()) out.insert(out.end(), {"--find", request.find});
  if (!run_dir.empty()) out.insert(out.end(), {"--run-dir", run_dir});
  if (request.json) out.emplace_back("--json");
  return out;
}

std::string settings_text(const Recipe& recipe) {
  std::string text;
  for (const auto& [key, setting] : recipe.settings()) text += key + " = " + toml_of(setting.value) + "\n";
  return text;
}

}  // namespace lockstep
