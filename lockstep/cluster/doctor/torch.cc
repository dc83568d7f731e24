// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/torch.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "lockstep/base/elf.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The oldest driver that can run programs built with a CUDA release, by CUDA's minor-version compatibility.
/// Source: CUDA Compatibility, https://docs.nvidia.com/deploy/cuda-compatibility/ , table 1.
struct CudaDriver {
  int cuda;
  int driver;
};
constexpr auto kDrivers = std::to_array<CudaDriver>({{11, 450}, {12, 525}, {13, 580}});

/// Returns the folders below an installation's prefix from which Python imports modules.
std::vector<fs::path> package_folders(const DoctorContext& of, const fs::path& prefix) {
  std::vector<fs::path> folders;
  for (const auto& name : names_in(of.at_root(prefix / "lib"))) {
    if (!name.starts_with("python3")) continue;
    folders.push_back(prefix / "lib" / name / "site-packages");
    folders.push_back(prefix / "lib" / name / "dist-packages");
  }
  return folders;
}

std::vector<fs::path> import_folders(const DoctorContext& of) {
  std::vector<fs::path> folders;
  for (const auto& entry : split(of.env.get("PYTHONPATH").value_or(""), ':')) {
    if (!entry.empty()) folders.emplace_back(entry);
  }
  std::vector<fs::path> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const auto prefix = of.env.get(name)) prefixes.emplace_back(*prefix);
  }
  for (const auto& entry : split(of.env.get("PATH").value_or(""), ':')) {
    std::error_code none;
    if (!entry.empty() && fs::exists(of.at_root(fs::path(entry) / "python3"), none)) {
      prefixes.push_back(fs::path(entry).parent_path());
    }
  }
  for (const auto& prefix : prefixes) {
    for (auto& folder : package_folders(of, prefix)) folders.push_back(std::move(folder));
  }
  return folders;
}

/// Returns the name of a GPU's architecture, "gfx906" for 90006, which is the form in KFD's properties. The digits are
/// major, minor and step, the last in hexadecimal.
std::string architecture(const DoctorContext& of) {
  const auto nodes = of.at_root("/sys/class/kfd/kfd/topology/nodes");
  for (const auto& node : names_in(nodes)) {
    for (const auto& line : split(text_or_nothing(nodes / node / "properties"), '\n')) {
      if (!line.starts_with("gfx_target_version ")) continue;
      const int number = parsed_int<int>(trimmed(line.substr(19))).value_or(0);
      if (number == 0) continue;
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "gfx%d%x%x", number / 10000, static_cast<unsigned>(number / 100 % 100),
                    static_cast<unsigned>(number % 100));
      return text.data();
    }
  }
  return {};
}

std::string index_for(GpuMaker maker) {
  return maker == GpuMaker::kNvidia ? "pip install torch --index-url https://download.pytorch.org/whl/cu126"
                                    : "pip install torch --index-url https://download.pytorch.org/whl/rocm6.3";
}

void check_driver(const DoctorContext& of, const std::string& cuda, Findings& findings) {
  const int release = parsed_int<int>(split(cuda, '.').front()).value_or(0);
  const auto row = std::ranges::find(kDrivers, release, &CudaDriver::cuda);
  if (row == kDrivers.end()) return;
  const auto text = split(text_or_nothing(of.at_root("/proc/driver/nvidia/version")), '\n').front();
  for (const auto& word : split(text, ' ')) {
    const auto parts = split(word, '.');
    const auto driver = parts.size() >= 2 ? parsed_int<int>(parts.front()) : std::nullopt;
    if (!driver) continue;
    if (*driver < row->driver) {
      findings.error("devices-driver-too-old",
                     "PyTorch is made for CUDA " + cuda + ", which needs driver " + std::to_string(row->driver) +
                         " or newer, the node's is " + word,
                     "take a PyTorch for an older CUDA: https://download.pytorch.org/whl lists them");
    }
    return;
  }
}

void check_architecture(const DoctorContext& of, const std::string& hip, Findings& findings) {
  const auto arch = architecture(of);
  // The wheels of PyTorch for newer ROCm versions do not support this GPU. Source: rocBLAS has no kernels for gfx906 in
  // wheels after ROCm 6.3: https://github.com/ROCm/legacy-rocm-build/issues/4625
  if (arch != "gfx906" || !is_older("6.4", hip + ".1")) return;
  findings.error("devices-architecture-dropped",
                 "PyTorch is made for ROCm " + hip + ", which has no kernels for this node's " + arch +
                     " devices, want ROCm 6.3 or older",
                 "pip install 'torch<2.10' --index-url https://download.pytorch.org/whl/rocm6.3");
}

}  // namespace

fs::path torch_folder(const DoctorContext& of) {
  std::error_code none;
  for (const auto& folder : import_folders(of)) {
    const auto torch = of.at_root(folder) / "torch";
    if (fs::exists(torch / "version.py", none)) return torch;
  }
  return {};
}

std::string torch_version(const fs::path& folder, const std::string& key) {
  for (const auto& line : split(text_or_nothing(folder / "version.py"), '\n')) {
    const auto equals = line.find('=');
    if (!line.starts_with(key) || equals == std::string::npos) continue;
    const auto after = trimmed(std::string_view(line).substr(equals + 1));
    if (after.size() >= 2 && after.front() == '\'') return std::string(after.substr(1, after.size() - 2));
  }
  return {};
}

void check_torch(const DoctorContext& of, Findings& findings) {
  const auto gpus = usable_gpus(of);
  const auto folder = torch_folder(of);
  if (gpus.empty() || folder.empty()) return;
  const bool is_nvidia = gpus.front().maker == GpuMaker::kNvidia;
  const auto cuda = torch_version(folder, "cuda");
  const auto hip = torch_version(folder, "hip");
  if ((is_nvidia ? cuda : hip).empty()) {
    const std::string made_for = !cuda.empty() ? "CUDA " + cuda : !hip.empty() ? "ROCm " + hip : "the CPU only";
    findings.error("devices-wrong-torch",
                   "this node has " + std::to_string(gpus.size()) + (is_nvidia ? " NVIDIA" : " AMD") +
                       " devices, but PyTorch " + torch_version(folder, "__version__") + " in '" + folder.string() +
                       "' is made for " + made_for + ": it would run on the CPU",
                   index_for(gpus.front().maker));
  } else if (is_nvidia) {
    check_driver(of, cuda, findings);
  } else {
    check_architecture(of, hip, findings);
  }
}

}  // namespace lockstep
