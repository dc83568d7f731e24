// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// A PyTorch that the training half can be built for.
struct TorchInstall {
  std::filesystem::path folder{};  ///< ".../site-packages/torch"; inside the container where there is one.
  std::string version{};           ///< "2.11.0+cu130"
  std::string abi{};               ///< Of the C++ library: "1" for the new one, "0" for the old.
  std::string device{};            ///< "cpu", "cuda-13.0", "rocm-6.4"
  std::string container{};         ///< The image that it is in; empty outside of one.
  std::string python{};            ///< The Python that has it: "/venv/bin/python3".
};

/// A training half that `lockstep setup` has built.
struct TrainerBuild {
  std::filesystem::path program{};  ///< "<cache>/train/<key>/bin/lockstep-train"
  TorchInstall torch{};
};

/// A program for Python that prints what torch_in() reads, without importing PyTorch: that takes seconds, and fails
/// where its GPU's driver is missing.
std::string_view torch_probe();

/// What the probe printed.
///
/// Throws: Error(kEnvironment) where there is no PyTorch, one that is older than 2.7, or one without C++ headers.
TorchInstall torch_in(std::string_view probe_output, const std::string& python);

/// What tells one build from another: "0.1.0-torch-2.11.0+cpu-abi1-cpu", with the image's name where there is one.
std::string build_key(const TorchInstall& torch, std::string_view version);

/// "<cache>/train": what `setup` has built, each in a folder with its key as name.
std::filesystem::path builds_folder(const Environment& env);

/// Where a build in this folder has its program.
std::filesystem::path program_of_build(const std::filesystem::path& folder);

/// Keeps what a build is for, in its folder, and makes it the one that is taken where nothing tells more; builds
/// in images are taken in those only.
///
/// Throws: Error(kIo).
void keep_build(const TrainerBuild& build);

/// All builds of this version that are there.
std::vector<TrainerBuild> kept_builds(const Environment& env, std::string_view version);

/// The build for the PyTorch of the environment that LOCKSTEP_PYTHON lies in; nothing where it names none.
std::optional<TrainerBuild> build_of_named_python(const Environment& env, std::string_view version);

/// The build for the image, or for the container that this process runs in; outside of one for the PyTorch of the
/// active environment, else the one that was made last. Nothing where there is none.
std::optional<TrainerBuild> chosen_build(const Environment& env, std::string_view version,
                                         const std::string& image = {});

}  // namespace lockstep
