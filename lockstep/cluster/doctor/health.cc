// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/health.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kMostPcieLanes = 32;  // A link that is down, or is none, shows other numbers: 0, 63, 255.

std::string left_out(const DoctorContext& of) {
  return "leave the node out with --exclude=" + of.host + " and tell the support";
}

std::string name_of(const DeviceHealth& device) {
  return device.pci.empty() ? std::to_string(device.number) : device.pci;
}

void check_memory_of(const DoctorContext& of, const DeviceHealth& device, Findings& findings) {
  const auto& memory = device.memory;
  if (memory.waits_for_reset || memory.is_beyond_repair) {
    findings.error("devices-memory-broken",
                   "device " + device.pci +
                       (memory.is_beyond_repair ? " has memory that could not be repaired: a row remap failed"
                                                : " has memory that is only repaired by a reset: rows or pages wait") +
                       ", want none such",
                   left_out(of) + "; `nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT` says more");
  } else if (memory.uncorrectable_errors.value_or(0) > 0) {
    findings.warning(
        "devices-memory-errors",
        "device " + device.pci + " has had " +
            counted(static_cast<std::int64_t>(*memory.uncorrectable_errors), "uncorrectable memory error") +
            " since its driver was loaded, want none",
        "if a run on this node fails: " + left_out(of));
  }
}

void check_speed_of(const DoctorContext& of, const DeviceHealth& device, Findings& findings) {
  if (!device.slowed_by.empty()) {
    findings.warning("devices-throttled", "device " + device.pci + " is held down by " + joined(device.slowed_by, ", "),
                     "ranks on it make all others wait: " + left_out(of));
  }
  if (device.clock_mhz) {
    findings.warning("devices-clock-lowered",
                     "device " + device.pci + " is set to " + std::to_string(*device.clock_mhz) +
                         " MHz, want its usual " + std::to_string(device.usual_clock_mhz.value_or(0)) + " MHz",
                     "an earlier job may have set it: `nvidia-smi -rac` sets it back; or " + left_out(of));
  }
}

/// Reports a device with fewer NVLinks than another of its node. A device without any NVLink is not reported, since it
/// may have no bridge.
void check_links_between(const DoctorContext& of, const std::vector<DeviceHealth>& devices, Findings& findings) {
  int most = 0;
  for (const auto& device : devices) most = std::max(most, device.links_up.value_or(0));
  for (const auto& device : devices) {
    const int up = device.links_up.value_or(0);
    if (up == 0 || up == most) continue;
    findings.warning("devices-links-down",
                     "device " + device.pci + " has " + counted(up, "NVLink") + " up, others of the node have " +
                         std::to_string(most),
                     left_out(of) + "; `nvidia-smi nvlink --status` shows which");
  }
}

/// Reports a device with fewer xGMI links than another of its node. Collectives between the two devices then use PCI
/// Express.
void check_xgmi(const DoctorContext& of, const std::vector<Gpu>& gpus, Findings& findings) {
  int most = 0;
  for (const auto& gpu : gpus) most = std::max(most, gpu.xgmi_links);
  for (const auto& gpu : gpus) {
    if (gpu.xgmi_links == most) continue;
    findings.warning("devices-links-down",
                     "device " + gpu.pci + " has " + counted(gpu.xgmi_links, "xGMI link") +
                         ", others of the node have " + std::to_string(most),
                     left_out(of) + "; `rocm-smi --showtopo` shows which");
  }
}

/// Slurm counts the devices of the job on this node. The only task of a node sees all of them, unless Slurm gives each
/// task devices of its own.
void check_count(const DoctorContext& of, Findings& findings) {
  if (of.at.local_world > 1 || of.env.get("SLURM_GPUS_PER_TASK")) return;
  const auto granted = of.env.get_int("SLURM_GPUS_ON_NODE").value_or(0);
  const auto usable = static_cast<std::int64_t>(usable_gpus(of).size());
  if (usable == 0 || usable >= granted) return;
  findings.error("devices-fewer",
                 "Slurm gave the job " + counted(granted, "device") + " on this node, but " + std::to_string(usable) +
                     " can be used",
                 left_out(of));
}

std::optional<int> lanes_in(const fs::path& file) {
  const auto lanes = parsed_int<int>(trimmed(text_or_nothing(file)));
  return lanes && *lanes > 0 && *lanes <= kMostPcieLanes ? lanes : std::nullopt;
}

/// A link without traffic lowers its rate to save power, but keeps its width. So only the width is compared.
void check_pcie(const DoctorContext& of, const Gpu& gpu, Findings& findings) {
  const auto folder = of.at_root("/sys/bus/pci/devices") / gpu.pci;
  const auto now = lanes_in(folder / "current_link_width");
  auto wanted = lanes_in(folder / "max_link_width");
  if (!now || !wanted) return;
  // A slot may have fewer lanes than the device. The link cannot be wider than the slot.
  std::error_code none;
  if (const auto slot = lanes_in(fs::canonical(folder, none).parent_path() / "max_link_width")) {
    wanted = std::min(*wanted, *slot);
  }
  if (*now >= *wanted) return;
  findings.warning(
      "devices-pcie-narrow",
      "device " + gpu.pci + " is linked by " + counted(*now, "PCI Express lane") + ", want " + std::to_string(*wanted),
      "copies to and from it are that much slower: " + left_out(of));
}

/// An adapter of the network and the rate of its link, in Gb/s.
struct AdapterRate {
  std::string name;
  double gbits = 0;
};

std::vector<AdapterRate> adapter_rates(const DoctorContext& of) {
  std::vector<AdapterRate> rates;
  for (const auto& name : of.profile.network.hcas) {
    // Parses a rate such as "200 Gb/sec (4X HDR)". Source: the kernel's
    // Documentation/ABI/stable/sysfs-class-infiniband.
    const auto text = text_or_nothing(of.at_root("/sys/class/infiniband") / name / "ports/1/rate");
    if (const auto rate = parsed_double(split(text, ' ').front())) rates.push_back({name, *rate});
  }
  if (!rates.empty() || of.profile.network.interfaces.empty()) return rates;
  // A profile's list names all adapters only if it has several names.
  const auto names = split(of.profile.network.interfaces.front(), ',');
  if (names.size() < 2) return rates;
  for (const auto& name : names) {
    const auto folder = of.at_root("/sys/class/net") / name;
    std::error_code none;
    if (!fs::exists(folder / "device", none)) continue;  // One that software pretends.
    const auto mbits = parsed_int<int>(trimmed(text_or_nothing(folder / "speed"))).value_or(-1);
    if (mbits > 0) rates.push_back({name, mbits / 1e3});
  }
  return rates;
}

void check_adapters(const DoctorContext& of, Findings& findings) {
  const auto& network = of.profile.network;
  const auto rates = adapter_rates(of);
  if (!of.spans_nodes() || rates.empty() || network.node_gbs == 0) return;
  const auto adapters = network.hcas.empty() ? split(network.interfaces.front(), ',').size() : network.hcas.size();
  const double wanted = 8.0 * static_cast<double>(network.node_gbs) / static_cast<double>(adapters);
  for (const auto& each : rates) {
    if (each.gbits >= 0.9 * wanted) continue;
    findings.warning("network-adapter-slow",
                     each.name + " runs at " + shortest(each.gbits) + " Gb/s, want " + shortest(wanted) + " Gb/s",
                     "ranks on this node make all others wait: " + left_out(of));
  }
}

}  // namespace

void check_device_health(const DoctorContext& of, Findings& findings) {
  const auto usable = usable_gpus(of);
  check_count(of, findings);
  if (usable.empty() || !of.system.device_health) return;
  auto devices = of.system.device_health();
  // Devices that belong to another job are not checked.
  std::erase_if(devices, [&](const DeviceHealth& device) {
    return !device.pci.empty() && std::ranges::find(usable, device.pci, &Gpu::pci) == usable.end();
  });
  for (const auto& device : devices) {
    if (device.is_lost) {
      findings.error("devices-lost", "the driver reaches device " + name_of(device) + " no more, or only after a reset",
                     left_out(of) + "; `dmesg` says Xid 79 or the like");
      continue;
    }
    check_memory_of(of, device, findings);
    check_speed_of(of, device, findings);
  }
  check_links_between(of, devices, findings);
}

void check_links(const DoctorContext& of, Findings& findings) {
  const auto gpus = usable_gpus(of);
  for (const auto& gpu : gpus) check_pcie(of, gpu, findings);
  check_xgmi(of, gpus, findings);
  check_adapters(of, findings);
}

}  // namespace lockstep
