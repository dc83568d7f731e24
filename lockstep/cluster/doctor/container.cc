// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/container.h"

#include <filesystem>

#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Returns the folders in a variable such as PATH that do not exist.
std::vector<std::string> missing_entries(const DoctorContext& of, const std::string& variable) {
  std::vector<std::string> missing;
  std::error_code none;
  for (const auto& entry : split(of.env.get(variable).value_or(""), ':')) {
    if (entry.starts_with('/') && !fs::exists(of.at_root(entry), none)) missing.push_back(entry);
  }
  return missing;
}

constexpr const char* kCleanEnv =
    "start the image with --cleanenv, or with `lockstep submit --container`, which keeps the host's variables out";

void check_conda(const DoctorContext& of, Findings& findings) {
  std::error_code none;
  for (const char* name : {"CONDA_PREFIX", "VIRTUAL_ENV", "PYTHONHOME"}) {
    const auto prefix = of.env.get(name);
    if (!prefix || fs::exists(of.at_root(*prefix), none)) continue;
    findings.error(
        "container-conda-leak",
        name + ("='" + *prefix) +
            "' is not in this image: it came from the host's environment, and Python "
            "may start with the wrong packages or not at all",
        std::string("unset ") + name + " (deactivate the environment) before the container starts; or " + kCleanEnv);
  }
}

void check_paths(const DoctorContext& of, Findings& findings) {
  const auto python = missing_entries(of, "PYTHONPATH");
  if (!python.empty()) {
    findings.error(
        "container-python-path-leak",
        "PYTHONPATH names '" + python.front() + "', which is not in this image: the host's packages are not meant here",
        std::string("unset PYTHONPATH before the container starts; or ") + kCleanEnv);
  }
  const auto libraries = missing_entries(of, "LD_LIBRARY_PATH");
  if (!libraries.empty()) {
    findings.warning(
        "container-library-path-leak",
        "LD_LIBRARY_PATH names '" + libraries.front() +
            "', which is not in this image: the host's modules are not meant here, and a library of theirs "
            "may take the place of the image's",
        std::string("unset LD_LIBRARY_PATH before the container starts; or ") + kCleanEnv);
  }
}

void check_user_packages(const DoctorContext& of, Findings& findings) {
  const auto home = of.env.get("HOME");
  if (!home || of.env.get("PYTHONNOUSERSITE")) return;
  for (const auto& name : names_in(of.at_root(*home) / ".local/lib")) {
    const auto packages = fs::path(*home) / ".local/lib" / name / "site-packages";
    if (!name.starts_with("python3") || names_in(of.at_root(packages)).empty()) continue;
    findings.warning("container-user-packages",
                     "'" + packages.string() + "' comes before the image's own packages for " + name,
                     "export PYTHONNOUSERSITE=1 inside the container");
    return;
  }
}

}  // namespace

bool is_in_container(const DoctorContext& of) {
  for (const char* name : {"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SHIFTER_RUNTIME", "container"}) {
    if (of.env.get(name)) return true;
  }
  std::error_code none;
  return fs::exists(of.at_root("/.singularity.d"), none) || fs::exists(of.at_root("/.dockerenv"), none) ||
         fs::exists(of.at_root("/run/.containerenv"), none);
}

void check_container(const DoctorContext& of, Findings& findings) {
  if (!is_in_container(of)) return;
  check_conda(of, findings);
  check_paths(of, findings);
  check_user_packages(of, findings);
}

}  // namespace lockstep
