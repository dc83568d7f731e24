// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"
#include "lockstep/launch/topology.h"

namespace lockstep {

/// Returns the GPUs of the node that this task's cgroup allows it to open.
std::vector<Gpu> usable_gpus(const DoctorContext& of);

/// Returns the GPUs that the environment's variables expose, in the order of the device's runtime. Returns nothing if a
/// variable names a device that does not exist, since the runtime then shows no device.
std::vector<Gpu> visible_gpus(const DoctorContext& of);

/// Returns the PCI address of this task's device. Nothing if the task has no device, or if the address is unknown.
std::optional<std::string> device_of_task(const DoctorContext& of);

/// Returns the number of devices that this job has on the node, over all of its tasks. Nothing if a cgroup hides
/// devices, so that the number is unknown.
std::optional<int> devices_on_node(const DoctorContext& of);

/// Returns the PCI address, such as "0000:c1:00.0", of each GPU of the node, also of those without a driver.
std::vector<std::string> pci_gpus(const DoctorContext& of, GpuMaker maker);

/// Checks that this task sees the devices that it was given, and can use them.
void check_devices(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
