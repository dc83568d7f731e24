// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/devices.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/container.h"
#include "lockstep/cluster/doctor/files.h"
#include "lockstep/telemetry/device_sensor.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kVersionsDiffer = 18;  // NVML_ERROR_LIB_RM_VERSION_MISMATCH in nvml.h
constexpr std::uint64_t kLeftOver = std::uint64_t{2} << 30U;

bool can_open(const fs::path& device) {
  return static_cast<bool>(FileDescriptor(::open(device.c_str(), O_RDWR | O_CLOEXEC)));
}

/// Returns the number in the line "Device Minor:    0" of /proc/driver/nvidia/gpus/PCI/information.
std::string nvidia_minor(const DoctorContext& of, const Gpu& gpu) {
  const auto text = text_or_nothing(of.at_root("/proc/driver/nvidia/gpus") / gpu.pci / "information");
  for (const auto& line : split(text, '\n')) {
    if (line.starts_with("Device Minor:")) return std::string(trimmed(std::string_view(line).substr(13)));
  }
  return {};
}

/// Returns the driver's version, "550.54.15", from a line such as "NVRM version: NVIDIA UNIX x86_64 Kernel Module
/// 550.54.15  Tue …".
std::string driver_version(const DoctorContext& of) {
  const auto text = text_or_nothing(of.at_root("/proc/driver/nvidia/version"));
  for (const auto& word : split(split(text, '\n').front(), ' ')) {
    const bool is_version = !word.empty() && word.find('.') != std::string::npos &&
                            word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_version) return word;
  }
  return "of unknown version";
}

void check_nvidia_driver(const DoctorContext& of, const std::vector<Gpu>& gpus, Findings& findings) {
  const auto count = std::to_string(gpus.size());
  std::error_code ignored;
  const bool has_files = std::ranges::any_of(
      gpus, [&](const Gpu& gpu) { return fs::exists(of.at_root("/dev/nvidia" + nvidia_minor(of, gpu)), ignored); });
  if (!has_files || !can_open(of.at_root("/dev/nvidiactl"))) {
    findings.error("devices-nvidia-no-files",
                   "the driver runs " + count + " NVIDIA devices, but " +
                       std::string(has_files ? "/dev/nvidiactl" : "/dev/nvidia0 and its like") +
                       " cannot be opened here",
                   is_in_container(of) ? "start the container with --nv (Apptainer, Singularity) or --gpus all (Docker)"
                                       : "ask the job for devices: --gpus-per-node=" + count);
    return;
  }
  const NvidiaLibrary library = of.system.nvidia();
  if (!library.is_loaded) {
    findings.error("devices-nvidia-no-library",
                   "the driver runs " + count +
                       " NVIDIA devices, but libnvidia-ml.so.1 is not found: no program here "
                       "can use them",
                   is_in_container(of) ? "start the container with --nv, which brings the driver's libraries along"
                                       : "put the folder of the driver's libraries into LD_LIBRARY_PATH");
  } else if (library.status == kVersionsDiffer) {
    findings.error("devices-nvidia-mismatch",
                   "the driver in the kernel is " + driver_version(of) +
                       ", its library is of another version: NVML answers 18, driver and library differ",
                   is_in_container(of) ? "take the image's own libnvidia-ml.so.1 away, --nv brings the node's"
                                       : "the node was updated and needs a restart: leave it out with --exclude=" +
                                             of.host + " and tell the support");
  } else if (library.status != 0) {
    findings.error(
        "devices-nvidia-fails",
        "NVIDIA's library does not start on this node: nvmlInit returns " + std::to_string(library.status) + ", want 0",
        "leave the node out with --exclude=" + of.host + " and tell the support; `nvidia-smi` says more");
  } else if (library.devices < static_cast<int>(usable_gpus(of).size())) {
    findings.error("devices-nvidia-lost",
                   "the driver lists " + count + " NVIDIA devices, its library counts " +
                       std::to_string(library.devices) + ": one has fallen off the bus",
                   "leave the node out with --exclude=" + of.host + " and tell the support; `dmesg` says Xid 79");
  }
}

void check_nvidia(const DoctorContext& of, Findings& findings) {
  const auto on_bus = pci_gpus(of, GpuMaker::kNvidia);
  const auto by_driver = Topology(of.root).gpus();
  const bool is_run = !by_driver.empty() && by_driver.front().maker == GpuMaker::kNvidia;
  if (is_run) {
    check_nvidia_driver(of, by_driver, findings);
  } else if (!on_bus.empty()) {
    findings.error("devices-nvidia-no-driver",
                   "the node has " + std::to_string(on_bus.size()) + " NVIDIA devices (" + on_bus.front() +
                       "), but no driver: /proc/driver/nvidia is not there",
                   "leave the node out with --exclude=" + of.host + " and tell the support");
  }
}

/// Returns for each GPU that KFD lists the number of its file /dev/dri/renderD*.
std::vector<std::string> render_files(const DoctorContext& of) {
  std::vector<std::string> files;
  const auto nodes = of.at_root("/sys/class/kfd/kfd/topology/nodes");
  for (const auto& node : names_in(nodes)) {
    for (const auto& line : split(text_or_nothing(nodes / node / "properties"), '\n')) {
      const auto minor =
          line.starts_with("drm_render_minor ") ? parsed_int<int>(trimmed(line.substr(17))) : std::nullopt;
      if (minor && *minor > 0) files.push_back("/dev/dri/renderD" + std::to_string(*minor));
    }
  }
  return files;
}

void check_amd(const DoctorContext& of, Findings& findings) {
  const auto on_bus = pci_gpus(of, GpuMaker::kAmd);
  const auto gpus = Topology(of.root).gpus();
  if (gpus.empty() || gpus.front().maker != GpuMaker::kAmd) {
    if (!on_bus.empty() && gpus.empty() && !of.env.get("SLURM_JOB_ID")) {
      findings.error("devices-amd-no-driver",
                     "the node has " + std::to_string(on_bus.size()) + " AMD devices (" + on_bus.front() +
                         "), but KFD, the compute part of their driver, lists none",
                     "load amdgpu with its compute part, or leave the node out with --exclude=" + of.host);
    }
    return;
  }
  std::vector<std::string> needed = render_files(of);
  needed.insert(needed.begin(), "/dev/kfd");
  for (const auto& file : needed) {
    if (can_open(of.at_root(file))) continue;
    std::error_code ignored;
    const bool is_there = fs::exists(of.at_root(file), ignored);
    findings.error("devices-amd-no-files",
                   "KFD lists " + std::to_string(gpus.size()) + " AMD devices, but " + file +
                       (is_there ? " may not be opened by this user" : " is not there") + ": HIP finds no device",
                   is_in_container(of) ? "start the container with --rocm (Apptainer, Singularity) or with "
                                         "--device=/dev/kfd --device=/dev/dri (Docker)"
                   : is_there          ? "join the groups that own it, mostly render and video"
                                       : "tell the support: the node's udev rules did not make it");
    return;
  }
}

void check_visible(const DoctorContext& of, Findings& findings) {
  const auto usable = usable_gpus(of);
  if (usable.empty() || !visible_gpus(of).empty()) return;
  std::string variables;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    const auto it = of.env.all().find(name);
    if (it != of.env.all().end()) variables += (variables.empty() ? "" : " and ") + (name + ("='" + it->second + "'"));
  }
  findings.error("devices-hidden",
                 variables + " leaves none of the " + std::to_string(usable.size()) +
                     " devices that this task may use: the program would run on the CPU or fail",
                 "unset what names a device that is not there; HIP_VISIBLE_DEVICES counts within what "
                 "ROCR_VISIBLE_DEVICES leaves; `lockstep exec` sets them for a task");
}

void check_granted(const DoctorContext& of, Findings& findings) {
  const auto granted = of.env.get_int("SLURM_GPUS_ON_NODE").value_or(0);
  if (granted == 0 || !usable_gpus(of).empty() || !Topology(of.root).gpus().empty()) return;
  findings.error(
      "devices-missing",
      "Slurm gave the job " + std::to_string(granted) + " devices on this node, but no driver lists one here",
      is_in_container(of) ? "start the container with --nv for NVIDIA or --rocm for AMD"
                          : "leave the node out with --exclude=" + of.host + " and tell the support");
}

void check_memory(const DoctorContext& of, Findings& findings) {
  const auto gpus = usable_gpus(of);
  if (gpus.empty() || gpus.front().maker != GpuMaker::kAmd) return;
  std::vector<std::string> pci;
  pci.reserve(gpus.size());
  for (const auto& gpu : gpus) pci.push_back(gpu.pci);
  for (const auto& device : amdgpu_sensor(pci, of.root)->sample()) {
    if (device.memory_used_bytes.value_or(0) < kLeftOver) continue;
    findings.warning("devices-memory-taken",
                     "device " + device.pci + " has " + human_bytes(*device.memory_used_bytes) + " of " +
                         human_bytes(device.memory_total_bytes.value_or(0)) + " in use before the program starts",
                     "end what is left on it (`rocm-smi --showpids`), or leave the node out with --exclude=" + of.host);
  }
}

std::vector<std::string> entries_of(const std::string& list) {
  std::vector<std::string> entries;
  for (const auto& entry : split(list, ',')) {
    if (trimmed(entry).empty() || entry.starts_with('-')) break;
    entries.emplace_back(trimmed(entry));
  }
  return entries;
}

std::vector<Gpu> visible_nvidia(const std::vector<Gpu>& usable, const std::string& list) {
  std::vector<Gpu> visible;
  for (const auto& entry : entries_of(list)) {
    const auto index = parsed_int<std::size_t>(entry);
    const auto found =
        index ? (*index < usable.size() ? usable.begin() + static_cast<std::ptrdiff_t>(*index) : usable.end())
              : std::ranges::find_if(usable, [&](const Gpu& gpu) { return gpu.uuid.starts_with(entry); });
    // CUDA shows the devices before the first invalid entry.
    if (found == usable.end()) break;
    visible.push_back(*found);
  }
  return visible;
}

std::vector<Gpu> visible_amd(const DoctorContext& of, const std::vector<Gpu>& usable) {
  std::vector<Gpu> visible;
  for (const char* name : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const auto it = of.env.all().find(name);
    // An empty list hides all devices. Environment::get() treats an empty variable as unset, so env.all() is used.
    if (it != of.env.all().end() && it->second.empty()) return {};
  }
  for (int index = 0; index < static_cast<int>(usable.size()); ++index) {
    const auto gpu = gpu_of_device(usable, of.env, index);
    if (!gpu) break;
    visible.push_back(*gpu);
  }
  return visible;
}

}  // namespace

std::vector<std::string> pci_gpus(const DoctorContext& of, GpuMaker maker) {
  std::vector<std::string> found;
  const auto devices = of.at_root("/sys/bus/pci/devices");
  const std::string_view vendor = maker == GpuMaker::kNvidia ? "0x10de" : "0x1002";
  for (const auto& name : names_in(devices)) {
    if (trimmed(text_or_nothing(devices / name / "vendor")) != vendor) continue;
    // Source: PCI Code and ID Assignment: 03 is a display controller, 12 a processing accelerator. A VGA controller
    //         (0300) may be the node's console, and does not count.
    const auto kind = text_or_nothing(devices / name / "class");
    if (kind.starts_with("0x0302") || kind.starts_with("0x0380") || kind.starts_with("0x12")) found.push_back(name);
  }
  return found;
}

std::vector<Gpu> usable_gpus(const DoctorContext& of) {
  auto gpus = Topology(of.root).gpus();
  std::erase_if(gpus, [&](const Gpu& gpu) {
    if (gpu.maker == GpuMaker::kAmd) return false;  // KFD lists only what the cgroup leaves.
    const auto minor = nvidia_minor(of, gpu);
    return !minor.empty() && !can_open(of.at_root("/dev/nvidia" + minor));
  });
  return gpus;
}

std::vector<Gpu> visible_gpus(const DoctorContext& of) {
  const auto usable = usable_gpus(of);
  if (usable.empty()) return {};
  if (usable.front().maker == GpuMaker::kAmd) return visible_amd(of, usable);
  const auto list = of.env.all().find("CUDA_VISIBLE_DEVICES");
  return list == of.env.all().end() ? usable : visible_nvidia(usable, list->second);
}

std::optional<std::string> device_of_task(const DoctorContext& of) {
  const auto visible = visible_gpus(of);
  const std::size_t index = visible.size() == 1 ? 0 : static_cast<std::size_t>(of.at.device.value_or(of.at.local_rank));
  if (index >= visible.size()) return std::nullopt;
  return visible[index].pci;
}

std::optional<int> devices_on_node(const DoctorContext& of) {
  if (const auto told = of.env.get_int("SLURM_GPUS_ON_NODE")) return told;
  const int usable = static_cast<int>(usable_gpus(of).size());
  if (of.env.get("SLURM_JOB_ID") && usable <= 1) return std::nullopt;
  return usable;
}

void check_devices(const DoctorContext& of, Findings& findings) {
  check_nvidia(of, findings);
  check_amd(of, findings);
  check_granted(of, findings);
  check_visible(of, findings);
  check_memory(of, findings);
}

}  // namespace lockstep
