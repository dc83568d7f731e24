// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/doctor.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/caches.h"
#include "lockstep/cluster/doctor/container.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/health.h"
#include "lockstep/cluster/doctor/layout.h"
#include "lockstep/cluster/doctor/libraries.h"
#include "lockstep/cluster/doctor/limits.h"
#include "lockstep/cluster/doctor/logs.h"
#include "lockstep/cluster/doctor/network.h"
#include "lockstep/cluster/doctor/space.h"
#include "lockstep/cluster/doctor/torch.h"
#include "lockstep/cluster/doctor/variables.h"
#include "lockstep/launch/slurm_tool.h"
#include "lockstep/launch/socket.h"
#include "lockstep/telemetry/nvml_sensor.h"

namespace lockstep {
namespace {

ResourceLimit limit_of(__rlimit_resource_t resource) {
  rlimit found{};
  if (::getrlimit(resource, &found) != 0) return {};
  const auto value = [](rlim_t raw) { return raw == RLIM_INFINITY ? kUnlimited : std::uint64_t{raw}; };
  return {value(found.rlim_cur), value(found.rlim_max)};
}

std::vector<NetworkInterface> interfaces_here() {
  ifaddrs* head = nullptr;
  if (::getifaddrs(&head) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(head, &::freeifaddrs);
  std::vector<NetworkInterface> found;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    auto known = std::ranges::find(found, std::string(at->ifa_name), &NetworkInterface::name);
    if (known == found.end()) {
      found.push_back({.name = at->ifa_name});
      known = found.end() - 1;
    }
    // IFF_UP only says that the interface is switched on. IFF_RUNNING says that its link works too.
    known->is_up = known->is_up || (at->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    if (auto address = numeric_text(at->ifa_addr)) known->addresses.push_back(std::move(*address));
  }
  return found;
}

NvidiaLibrary nvidia_library() {
  const auto nvml = load_nvml();
  if (!nvml) return {};
  NvidiaLibrary found{.is_loaded = true, .status = nvml->init()};
  unsigned count = 0;
  if (found.status == 0 && nvml->count(&count) == 0) found.devices = static_cast<int>(count);
  return found;
}

std::string hint_or(const Error& error, std::string_view otherwise) {
  return std::string(error.hint().empty() ? otherwise : error.hint());
}

struct Check {
  MakeCheck make;
  int CheckCounts::*of;  ///< The count that the check adds to.
};

constexpr std::array kQuick = {
    Check{&check_layout, &CheckCounts::job},     Check{&check_devices, &CheckCounts::node},
    Check{&check_torch, &CheckCounts::node},     Check{&check_variables, &CheckCounts::job},
    Check{&check_caches, &CheckCounts::node},    Check{&check_process_limits, &CheckCounts::node},
    Check{&check_run_space, &CheckCounts::run},  Check{&check_node_space, &CheckCounts::node},
    Check{&check_container, &CheckCounts::node},
};
constexpr std::array kThorough = {
    Check{&check_device_health, &CheckCounts::node}, Check{&check_links, &CheckCounts::node},
    Check{&check_network, &CheckCounts::node},       Check{&check_libraries, &CheckCounts::node},
    Check{&check_quota, &CheckCounts::run},          Check{&check_logs, &CheckCounts::run},
    Check{&check_budget, &CheckCounts::job},
};

}  // namespace

std::string_view name_of(Severity severity) {
  constexpr std::array<std::string_view, 3> kNames = {"note", "warning", "error"};
  return kNames.at(static_cast<std::size_t>(severity));
}

ProcessLimits ProcessLimits::of_process() {
  return {.open_files = limit_of(RLIMIT_NOFILE),
          .locked_bytes = limit_of(RLIMIT_MEMLOCK),
          .stack_bytes = limit_of(RLIMIT_STACK),
          .processes = limit_of(RLIMIT_NPROC),
          .address_bytes = limit_of(RLIMIT_AS)};
}

SystemView SystemView::of_process(const Environment& env) {
  return {.limits = ProcessLimits::of_process(),
          .allowed = cpus_of_process(),
          .interfaces = interfaces_here(),
          .addresses_of = resolve_host,
          .is_port_free = is_free,
          .nvidia = nvidia_library,
          .device_health = device_health_of_node,
          .run = [env](const std::vector<std::string>& command) { return run_slurm_tool(command, env); }};
}

DoctorContext DoctorContext::of_process(const Environment& env, Profile profile, RunUnderTest run) {
  return {.env = env,
          .profile = std::move(profile),
          .host = host_name(),
          .system = SystemView::of_process(env),
          .run = std::move(run)};
}

void run_check(MakeCheck make, const DoctorContext& of, Findings& findings) {
  try {
    make(of, findings);
  } catch (const Error& error) {
    findings.warning("check-failed", "a check could not be made: " + std::string(error.fact()),
                     hint_or(error, "run `lockstep doctor` again"));
  }
}

void place(DoctorContext& context, Findings& findings) {
  try {
    context.at = placement_from(context.env);
  } catch (const Error& error) {
    findings.error("layout-unclear", std::string(error.fact()), hint_or(error, "start the program with srun"));
  }
}

std::vector<Finding> quick_findings(DoctorContext context) {
  Findings findings;
  place(context, findings);
  for (const auto& check : kQuick) run_check(check.make, context, findings);
  return findings.list();
}

std::vector<Finding> findings_of(DoctorContext context) {
  Findings findings;
  place(context, findings);
  for (const auto& check : kQuick) run_check(check.make, context, findings);
  for (const auto& check : kThorough) run_check(check.make, context, findings);
  return findings.list();
}

CheckCounts checks_of(const RunUnderTest& run) {
  CheckCounts counts;
  counts.job = 1;  // The placement of this task.
  for (const auto& check : kQuick) ++(counts.*check.of);
  for (const auto& check : kThorough) ++(counts.*check.of);
  if (run.run_dir.empty()) counts.run = run.logs.empty() ? 0 : 1;
  return counts;
}

bool has_error(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const auto& finding) { return finding.severity == Severity::kError; });
}

}  // namespace lockstep
