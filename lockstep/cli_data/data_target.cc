// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_data/data_target.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli_data/recipe_settings.h"
#include "lockstep/data/source/idx_source.h"
#include "lockstep/recipe/builtin.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool has_any(const fs::path& folder, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) {
    std::error_code ignored;
    return fs::exists(folder / name, ignored);
  });
}

std::string kind_of_file(const fs::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".csv" || ending == ".tsv") return "csv";
  std::array<char, 8> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  constexpr std::array<char, 8> kHdf5 = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  if (first == kHdf5 || ending == ".h5" || ending == ".hdf5") return "hdf5";
  return ending == ".txt" ? "text" : "";
}

bool has_folders(const fs::path& folder) {
  std::error_code ignored;
  const fs::directory_iterator entries(folder, ignored);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.is_directory() && !entry.path().filename().string().starts_with('.');
  });
}

DataSettings settings_of_path(const DataRequest& request) {
  if (!request.sets.empty()) {
    throw Error(ErrorKind::kUsage, "--set is given for the path '" + request.path + "', want it for a recipe",
                "leave it out, or name a recipe");
  }
  DataSettings settings;
  settings.path = request.path;
  settings.kind = request.kind.empty() ? kind_of_path(request.path) : request.kind;
  // If a set has only a part named test, this part is split into training and validation.
  settings.split = 0.1;
  if (!settings.kind.empty()) return settings;
  check_may_read(request.path);
  throw Error(ErrorKind::kUsage, "'" + request.path + "': its kind of data is not recognized",
              "name it: --kind folder, idx, cifar10, cifar100, hdf5, text or csv");
}

}  // namespace

std::string kind_of_path(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return kind_of_file(path);
  if (has_idx_split(path, "train") || has_idx_split(path, "validation")) return "idx";
  if (has_any(path, {"cifar-10-batches-bin", "cifar-10-batches-py", "data_batch_1", "data_batch_1.bin"})) {
    return "cifar10";
  }
  if (has_any(path, {"cifar-100-binary", "cifar-100-python", "train.bin", "fine_label_names.txt"})) return "cifar100";
  if (has_any(path, {"train.h5", "train.hdf5", "training.h5"})) return "hdf5";
  if (has_any(path, {"train.csv", "train.tsv", "training.csv"})) return "csv";
  if (has_any(path, {"train.txt"})) return "text";
  const fs::path train = split_folder(path, "train");
  return has_folders(train.empty() ? path : train) ? "folder" : "";
}

DataSettings data_target(const DataRequest& request, const Environment& env, const fs::path& program) {
  std::error_code ignored;
  const bool is_path = !request.path.ends_with(".toml") && fs::exists(request.path, ignored);
  if (is_path) return settings_of_path(request);
  if (!request.path.ends_with(".toml") && request.path.find('/') != std::string::npos) {
    check_may_read(request.path);
    throw Error(ErrorKind::kUsage, "'" + request.path + "' is not there, want a data set's folder or file, or a recipe",
                "check the spelling");
  }
  if (!request.kind.empty()) {
    throw Error(ErrorKind::kUsage, "--kind is given for the recipe '" + request.path + "', which has data.kind",
                "leave it out, or name a path");
  }
  const Recipe recipe = Recipe::load(recipe_file(request.path, program), env, overrides_of(request.sets));
  if (recipe.text("data.kind") == "synthetic") {
    throw Error(ErrorKind::kRecipe, "data.kind (" + recipe.origin("data.kind").where +
                                        ") is synthetic: such data are generated, so there is nothing on disk");
  }
  return data_settings_of(recipe);
}

}  // namespace lockstep
