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

/// One thing that is not as a run needs it. docs/doctor.md has a heading for each code.
struct Finding {
  std::string code{};  ///< "layout-one-core": the family of checks, then what is wrong. Scripts may rely on it.
  Severity severity = Severity::kNote;
  std::string fact{};                ///< With the value found and the value wanted.
  std::string fix{};                 ///< What to type or to change.
  std::vector<std::string> hosts{};  ///< Where it was found; empty where it is not one node's.
};

/// Findings as they are collected: a check tells, it does not throw.
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

/// What NVIDIA's driver says through its library.
struct NvidiaLibrary {
  bool is_loaded = false;  ///< libnvidia-ml.so.1 is there.
  int status = 0;          ///< What nvmlInit returned: 0 where all is well, 18 where library and driver differ.
  int devices = 0;         ///< That it counts.
};

/// What a check reads of the system that is no file; tests put in what they like.
struct SystemView {
  ProcessLimits limits{};
  CpuSet allowed{};  ///< Where the launcher let this task run.
  std::vector<NetworkInterface> interfaces{};
  std::function<std::vector<std::string>(const std::string& host)> addresses_of{};  ///< Empty: it does not resolve.
  std::function<bool(int port)> is_port_free{};
  std::function<NvidiaLibrary()> nvidia{};
  std::function<std::vector<DeviceHealth>()> device_health{};
  std::function<ProcessResult(const std::vector<std::string>& command)> run{};

  static SystemView of_process(const Environment& env);
};

/// The run that is to be looked at, where there is one.
struct RunUnderTest {
  std::filesystem::path run_dir{};
  std::vector<std::filesystem::path> logs{};      ///< NCCL's or RCCL's, besides those of the run folder.
  std::optional<std::uint64_t> snapshot_bytes{};  ///< Else that of the newest snapshot in the run folder.
};

/// Everything that the checks look at.
struct DoctorContext {
  Environment env{};
  Profile profile{};
  std::filesystem::path root = "/";  ///< Stands for "/" in tests.
  std::string host{};
  SystemView system{};
  RunUnderTest run{};
  Placement at{};  ///< Set by `place`; one process until then.

  /// The machine and process that this is.
  static DoctorContext of_process(const Environment& env, Profile profile, RunUnderTest run);

  bool in_job() const { return env.get("SLURM_JOB_ID") || at.source != "single"; }
  /// A claim: ranks of this job are on several nodes.
  bool spans_nodes() const { return at.nodes > 1; }
  /// `path` below `root`.
  std::filesystem::path at_root(const std::filesystem::path& path) const { return root / path.relative_path(); }
};

/// Fills in `at`, or tells why the launcher's variables make no sense.
void place(DoctorContext& context, Findings& findings);

/// All checks of one process that take milliseconds and start no program: for `submit` and `train` before they begin.
std::vector<Finding> quick_findings(DoctorContext context);

/// A check of one thing: adds its findings.
using MakeCheck = void (*)(const DoctorContext&, Findings&);

/// Makes a check. One that meets what nobody thought of becomes a finding itself, and takes no other's with it.
void run_check(MakeCheck make, const DoctorContext& of, Findings& findings);

/// All checks of one process. The ones between nodes are in doctor_nodes.h.
std::vector<Finding> findings_of(DoctorContext context);

/// How many checks one process makes, and of what.
struct CheckCounts {
  int node = 0;  ///< Of the node: devices, libraries, limits, network.
  int job = 0;   ///< Of how the job's tasks lie, and of its variables.
  int run = 0;   ///< Of the run folder and of logs; 0 if there is neither.
};

/// Returns the number of checks that findings_of() makes.
CheckCounts checks_of(const RunUnderTest& run);

/// A claim: there is an error among them.
bool has_error(const std::vector<Finding>& findings);

}  // namespace lockstep
