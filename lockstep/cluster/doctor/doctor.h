// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/environment.h"
#include "lockstep/cluster/profile/profile.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/process.h"
#include "lockstep/telemetry/device_health.h"

namespace lockstep {

enum class Severity { kNote, kWarning, kError };

/// "note", "warning" or "error".
std::string_view name_of(Severity severity);

/// A finding: one thing on the machine that is not as a run needs it. docs/cluster/doctor.md has a heading for each
/// code.
struct Finding {
  std::string code{};  ///< The family of checks and the fault, such as "layout-one-core". Scripts may rely on it.
  Severity severity = Severity::kNote;
  std::string fact{};                ///< With the value found and the value wanted.
  std::string fix{};                 ///< The command to type, or the change to make.
  std::vector<std::string> hosts{};  ///< If it was found. Empty if it is not one node's.
};

/// Collects findings. A check adds its findings here, and does not throw.
class Findings {
 public:
  void note(std::string code, std::string fact, std::string fix) {
    add(Severity::kNote, std::move(code), std::move(fact), std::move(fix));
  }
  void warning(std::string code, std::string fact, std::string fix) {
    add(Severity::kWarning, std::move(code), std::move(fact), std::move(fix));
  }
  void error(std::string code, std::string fact, std::string fix) {
    add(Severity::kError, std::move(code), std::move(fact), std::move(fix));
  }
  void add(Severity severity, std::string code, std::string fact, std::string fix) {
    list_.push_back({std::move(code), severity, std::move(fact), std::move(fix)});
  }

  const std::vector<Finding>& list() const { return list_; }

 private:
  std::vector<Finding> list_;
};

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

/// One of getrlimit's.
struct ResourceLimit {
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;
};

struct ProcessLimits {
  ResourceLimit open_files{};
  ResourceLimit locked_bytes{};
  ResourceLimit stack_bytes{};
  ResourceLimit processes{};
  ResourceLimit address_bytes{};

  static ProcessLimits of_process();
};

/// A network interface of this node.
struct NetworkInterface {
  std::string name{};
  bool is_up = false;
  std::vector<std::string> addresses{};  ///< Numeric, IPv4 before IPv6.
};

/// The state of NVIDIA's driver, as its library reports it.
struct NvidiaLibrary {
  bool is_loaded = false;  ///< libnvidia-ml.so.1 is there.
  int status = 0;          ///< The result of nvmlInit. 0 if all is well, 18 if library and driver have different
                           ///< versions.
  int devices = 0;         ///< That it counts.
};

/// The facts that checks read from the system other than from files. Tests set values of their own.
struct SystemView {
  ProcessLimits limits{};
  CpuSet allowed{};  ///< The CPUs that the launcher allowed this task.
  std::vector<NetworkInterface> interfaces{};
  std::function<std::vector<std::string>(const std::string& host)> addresses_of{};  ///< Empty if the name does not
                                                                                    ///< resolve.
  std::function<bool(int port)> is_port_free{};
  std::function<NvidiaLibrary()> nvidia{};
  std::function<std::vector<DeviceHealth>()> device_health{};
  std::function<ProcessResult(const std::vector<std::string>& command)> run{};

  static SystemView of_process(const Environment& env);
};

/// The run that doctor checks, if there is one.
struct RunUnderTest {
  std::filesystem::path run_dir{};
  std::vector<std::filesystem::path> logs{};      ///< Logs of NCCL or RCCL, in addition to those of the run folder.
  std::optional<std::uint64_t> snapshot_bytes{};  ///< Else that of the newest snapshot in the run folder.
};

/// The input of all checks: the machine, the job and the run.
struct DoctorContext {
  Environment env{};
  Profile profile{};
  std::filesystem::path root = "/";  ///< Stands for "/" in tests.
  std::string host{};
  SystemView system{};
  RunUnderTest run{};
  Placement at{};  ///< Set by `place`. Until then it is one process.

  /// Returns the context of this machine and this process.
  static DoctorContext of_process(const Environment& env, Profile profile, RunUnderTest run);

  bool in_job() const { return env.get("SLURM_JOB_ID") || at.source != "single"; }
  /// True if ranks of this job are on several nodes.
  bool spans_nodes() const { return at.nodes > 1; }
  /// `path` below `root`.
  std::filesystem::path at_root(const std::filesystem::path& path) const { return root / path.relative_path(); }
};

/// Sets `at` from the launcher's variables, or adds a finding if they are inconsistent.
void place(DoctorContext& context, Findings& findings);

/// Runs all checks of one process that take milliseconds and start no program. `submit` and `train` call it before they
/// begin.
std::vector<Finding> quick_findings(DoctorContext context);

/// A check of one subject. It adds its findings to the context.
using MakeCheck = void (*)(const DoctorContext&, Findings&);

/// Runs a check. If the check throws, its exception becomes a finding, so that the other checks still run.
void run_check(MakeCheck make, const DoctorContext& of, Findings& findings);

/// Runs all checks that one process can make. Checks between nodes are in nodes.h.
std::vector<Finding> findings_of(DoctorContext context);

/// The number of checks that one process makes, by subject.
struct CheckCounts {
  int node = 0;  ///< Checks of the node, its devices, libraries, limits and network.
  int job = 0;   ///< Of how the job's tasks lie, and of its variables.
  int run = 0;   ///< Of the run folder and of logs. 0 if there is neither.
};

/// Returns the number of checks that findings_of() makes.
CheckCounts checks_of(const RunUnderTest& run);

/// True if one of the findings is an error.
bool has_error(const std::vector<Finding>& findings);

}  // namespace lockstep
