// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// A PyTorch for which `lockstep-train` can be built.
struct TorchInstall {
  std::filesystem::path folder{};  ///< ".../site-packages/torch". Inside the container if there is one.
  std::string version{};           ///< "2.11.0+cu130"
  std::string abi{};               ///< ABI of the C++ library, "1" for the new one, "0" for the old.
  std::string device{};            ///< "cpu", "cuda-13.0", "rocm-6.4"
  std::string container{};         ///< The image that PyTorch is in. Empty outside an image.
  std::string python{};            ///< The Python interpreter that has it: "/venv/bin/python3".
};

/// A `lockstep-train` that `lockstep setup` has built.
struct TrainerBuild {
  std::filesystem::path program{};  ///< "<cache>/train/<key>/bin/lockstep-train"
  TorchInstall torch{};
};

/// Returns the text of a Python program that prints the input for torch_in(). The program does not import PyTorch,
/// since that takes seconds, and fails if the GPU's driver is missing.
std::string_view torch_probe();

/// Parses the probe's output.
///
/// Throws: Error(kEnvironment) if there is no PyTorch, one that is older than 2.7, or one without C++ headers.
TorchInstall torch_in(std::string_view probe_output, const std::string& python);

/// Identifies a build, such as "0.1.0-torch-2.11.0+cpu-abi1-cpu", with the image's name if there is one.
std::string build_key(const TorchInstall& torch, std::string_view version);

/// Returns the folder "<cache>/train". It has the builds of `lockstep setup`, each in a folder that is named by the
/// build's key.
std::filesystem::path builds_folder(const Environment& env);

/// Returns the path of the program of a build in this folder.
std::filesystem::path program_of_build(const std::filesystem::path& folder);

/// Records the purpose of a build in its folder, and makes it the default. A build that was made in an image is used in
/// that image only.
///
/// Throws: Error(kIo) if the record cannot be written.
void keep_build(const TrainerBuild& build);

/// Returns all existing builds of this version.
std::vector<TrainerBuild> kept_builds(const Environment& env, std::string_view version);

/// Returns the build for the PyTorch in the environment of LOCKSTEP_PYTHON. Nothing if the variable is unset, or if
/// there is no such build.
std::optional<TrainerBuild> build_of_named_python(const Environment& env, std::string_view version);

/// Returns the build to use. For an image, or inside a container, it is the build for that image. Otherwise it is the
/// build for the PyTorch of the active environment, or else the latest build. Nothing if there is none.
std::optional<TrainerBuild> chosen_build(const Environment& env, std::string_view version,
                                         const std::string& image = {});

}  // namespace lockstep
