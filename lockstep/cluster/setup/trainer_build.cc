// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/setup/trainer_build.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/cache_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kProbe = R"py(
import importlib.util, json, os, re, sys
sys.path = [p for p in sys.path if p]
spec = importlib.util.find_spec("torch")
if spec is None or not spec.submodule_search_locations:
    print("{}")
    sys.exit()
folder = list(spec.submodule_search_locations)[0]
facts = {}
exec(open(os.path.join(folder, "version.py")).read(), facts)
config = os.path.join(folder, "share", "cmake", "Torch", "TorchConfig.cmake")
abi = re.search(r"_GLIBCXX_USE_CXX11_ABI=(\d)", open(config).read()) if os.path.exists(config) else None
device = "rocm-" + facts["hip"] if facts.get("hip") else "cuda-" + facts["cuda"] if facts.get("cuda") else "cpu"
print(json.dumps({"python": sys.executable, "folder": folder, "version": str(facts["__version__"]), "abi": abi.group(1) if abi else "1",
                  "device": device, "headers": os.path.isdir(os.path.join(folder, "include", "torch"))}))
)py";

fs::path record_of(const fs::path& folder) { return folder / "setup.json"; }
fs::path folder_of(const TrainerBuild& build) { return build.program.parent_path().parent_path(); }

std::optional<TrainerBuild> build_in(const fs::path& folder) {
  try {
    const auto object = json::parse(text_of_file(record_of(folder)));
    return TrainerBuild{.program = program_of_build(folder),
                        .torch = {.folder = object.at("torch").get<std::string>(),
                                  .version = object.at("torch_version"),
                                  .abi = object.at("abi"),
                                  .device = object.at("device"),
                                  .container = object.at("container")}};
  } catch (const std::exception&) {
    // A build that is still being made, or that was interrupted. It is skipped.
    return std::nullopt;
  }
}

/// Folders of the active environment. Its PyTorch is below one of them.
std::vector<fs::path> active_environments(const Environment& env) {
  std::vector<fs::path> folders;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const auto folder = env.get(name); folder && !folder->empty()) folders.emplace_back(*folder);
  }
  return folders;
}

bool lies_in(const fs::path& path, const fs::path& folder) { return path.string().starts_with(folder.string() + "/"); }

}  // namespace

std::string_view torch_probe() { return kProbe; }

TorchInstall torch_in(std::string_view probe_output, const std::string& python) {
  const auto object = json::parse(trimmed(probe_output), nullptr, false);
  if (!object.is_object() || !object.contains("folder")) {
    throw Error(ErrorKind::kEnvironment, "'" + python + "' has no PyTorch",
                "name one that has: lockstep setup --python PATH; or install it: pip install torch");
  }
  TorchInstall torch{.folder = object.at("folder").get<std::string>(),
                     .version = object.at("version"),
                     .abi = object.at("abi"),
                     .device = object.at("device"),
                     .python = object.value("python", "")};
  const auto parts = split(torch.version, '.');
  const int major = parsed_int<int>(parts.front()).value_or(0);
  const int minor = parts.size() > 1 ? parsed_int<int>(parts[1]).value_or(0) : 0;
  if (major < 2 || (major == 2 && minor < 7)) {
    throw Error(ErrorKind::kEnvironment, "the PyTorch of '" + python + "' is " + torch.version + ", want 2.7 or newer",
                "older ones have another C++ library's ABI; take a newer one for training, any program runs with it");
  }
  if (!object.value("headers", false)) {
    throw Error(ErrorKind::kEnvironment,
                "the PyTorch in '" + torch.folder.string() + "' has no C++ headers (include/torch)",
                "take the wheel from PyPI, or the package that holds them");
  }
  return torch;
}

std::string build_key(const TorchInstall& torch, std::string_view version) {
  std::string key = std::string(version) + "-torch-" + torch.version + "-abi" + torch.abi + "-" + torch.device;
  if (!torch.container.empty()) key += "-in-" + fs::path(torch.container).stem().string();
  return fit_for_a_file(key, "-+._");
}

fs::path program_of_build(const fs::path& folder) { return folder / "bin" / "lockstep-train"; }

fs::path builds_folder(const Environment& env) { return cache_folder(env) / "train"; }

void keep_build(const TrainerBuild& build) {
  const json object = {{"schema", 1},
                       {"torch", build.torch.folder.string()},
                       {"torch_version", build.torch.version},
                       {"abi", build.torch.abi},
                       {"device", build.torch.device},
                       {"container", build.torch.container}};
  write_whole(record_of(folder_of(build)), json_text(object, 2) + "\n", false);
}

std::vector<TrainerBuild> kept_builds(const Environment& env, std::string_view version) {
  std::vector<TrainerBuild> builds;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(builds_folder(env), error)) {
    if (!entry.path().filename().string().starts_with(std::string(version) + "-torch-")) continue;
    auto build = build_in(entry.path());
    if (build && ::access(build->program.c_str(), X_OK) == 0) builds.push_back(std::move(*build));
  }
  // The build that was recorded last comes first.
  std::ranges::sort(builds, std::greater{}, [](const TrainerBuild& build) {
    std::error_code ignored;
    return fs::last_write_time(record_of(folder_of(build)), ignored);
  });
  return builds;
}

std::optional<TrainerBuild> build_of_named_python(const Environment& env, std::string_view version) {
  const auto python = env.get("LOCKSTEP_PYTHON");
  if (!python || python->find('/') == std::string::npos) return std::nullopt;
  const auto folder = fs::path(*python).parent_path().parent_path();
  for (const auto& build : kept_builds(env, version)) {
    if (build.torch.container.empty() && lies_in(build.torch.folder, folder)) return build;
  }
  return std::nullopt;
}

std::optional<TrainerBuild> chosen_build(const Environment& env, std::string_view version, const std::string& image) {
  auto inside = image;
  for (const char* name : {"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"}) {
    if (inside.empty()) inside = env.get(name).value_or("");
  }
  const auto builds = kept_builds(env, version);
  const auto first = [&](auto fits) -> std::optional<TrainerBuild> {
    const auto found = std::ranges::find_if(builds, fits);
    return found == builds.end() ? std::nullopt : std::optional(*found);
  };
  if (!inside.empty()) return first([&](const auto& build) { return build.torch.container == inside; });
  for (const auto& folder : active_environments(env)) {
    const auto found =
        first([&](const auto& build) { return build.torch.container.empty() && lies_in(build.torch.folder, folder); });
    if (found) return found;
  }
  return first([](const auto& build) { return build.torch.container.empty(); });
}

}  // namespace lockstep
