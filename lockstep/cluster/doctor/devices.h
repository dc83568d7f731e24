// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"
#include "lockstep/launch/topology.h"

namespace lockstep {

/// The GPUs of the node that this task's cgroup lets it open.
std::vector<Gpu> usable_gpus(const DoctorContext& of);

/// Returns those GPUs that the variables expose, in the order in which the device's runtime numbers them. Nothing if a
/// variable names a device that does not exist, since the runtime then shows none at all.
std::vector<Gpu> visible_gpus(const DoctorContext& of);

/// Returns the PCI address of this task's device. Nothing if it has none, or if the address is unknown.
std::optional<std::string> device_of_task(const DoctorContext& of);

/// Returns the number of devices that this job has on the node, over all of its tasks. Nothing if a cgroup hides that.
std::optional<int> devices_on_node(const DoctorContext& of);

/// "0000:c1:00.0" of each GPU on the node's PCI buses, whether or not a driver runs it.
std::vector<std::string> pci_gpus(const DoctorContext& of, GpuMaker maker);

/// Checks that this task sees the devices that it was given, and can use them.
void check_devices(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
