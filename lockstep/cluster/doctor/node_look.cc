// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/node_look.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/health.h"
#include "lockstep/cluster/doctor/limited_child.h"
#include "lockstep/cluster/doctor/report.h"
#include "lockstep/cluster/doctor/space.h"
#include "lockstep/launch/program.h"

// A child process makes the checks. It writes a line to its pipe before each check, and one for each finding. If a
// driver's call never returns, earlier findings are not lost, and the last line names the check that hangs.

namespace lockstep {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

/// A check, and its name for messages.
struct NamedCheck {
  const char* name;
  MakeCheck make;
};

constexpr auto kChecks = std::to_array<NamedCheck>({
    {"devices", &check_devices},
    {"health of the devices", &check_device_health},
    {"links", &check_links},
});
/// Checks of the whole job. Only its first node makes them.
constexpr auto kOnFirstNode = std::to_array<NamedCheck>({{"quota", &check_quota}, {"budget", &check_budget}});

/// Errors in the job's settings. These are the same on every node, so another node would not help.
constexpr auto kOfTheJob = std::to_array<std::string_view>({"devices-hidden", "devices-not-seen"});

/// A program that any Python can run. Without PyTorch it does nothing. Its output lines begin with "lockstep: ".
constexpr const char* kAskTorch = R"(
import sys
def say(*words):
    sys.stdout.write("lockstep: " + " ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()
try:
    say("python")
    sys.path[:] = [each for each in sys.path if each]  # What -c adds, the working folder, may hold a folder torch.
    import importlib.util
    if importlib.util.find_spec("torch"):
        say("importing")
        import torch
        say("imported", torch.__version__, torch.version.cuda, torch.version.hip)
        kinds = [getattr(torch, name, None) for name in ("cuda", "xpu", "npu", "hpu")]
        if not any(kind.is_available() for kind in kinds if hasattr(kind, "is_available")):
            try:
                torch.cuda.init()
                say("no device")
            except Exception as error:
                say("no device", (str(error).splitlines() or [""])[0])
except Exception:
    pass
)";

bool is_first_node(const DoctorContext& of) { return of.env.get_int("SLURM_PROCID").value_or(0) == 0; }

void write_line(int pipe, const json& line) {
  const auto text = json_text(line) + "\n";
  write_all(pipe, std::as_bytes(std::span(text)), "the doctor's pipe");
}

int make_checks(const DoctorContext& of, const std::vector<NamedCheck>& checks, int pipe) {
  for (const auto& check : checks) {
    write_line(pipe, {{"at", check.name}});
    Findings findings;
    run_check(check.make, of, findings);
    for (const auto& finding : findings.list()) write_line(pipe, json_of(finding));
  }
  return 0;
}

/// Slurm's generic resources may be something other than GPUs. Only a profile or the PCI bus shows that they are GPUs.
bool is_sure_of_devices(const DoctorContext& of) {
  return !of.profile.devices.backend.empty() || !pci_gpus(of, GpuMaker::kNvidia).empty() ||
         !pci_gpus(of, GpuMaker::kAmd).empty();
}

std::vector<Finding> findings_in(const LimitedChild& child, milliseconds limit) {
  std::vector<Finding> findings;
  std::string at;
  for (const auto& line : split(child.said, '\n')) {
    const auto object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded()) continue;
    if (object.contains("at")) {
      at = object["at"];
    } else {
      findings.push_back(finding_of(object));
    }
  }
  if (child.exit_code == 0) return findings;
  const std::string how = child.exit_code
                              ? "ended with " + std::to_string(*child.exit_code)
                              : "took more than " + shortest(static_cast<double>(limit.count()) / 1e3) + " s";
  // A slow file server or a slow accounting database is not a fault of this node.
  const bool is_of_job = std::ranges::any_of(kOnFirstNode, [&](const auto& check) { return at == check.name; });
  const auto severity = is_of_job ? Severity::kNote : Severity::kWarning;
  findings.push_back(
      {.code = "check-too-long",
       .severity = severity,
       .fact = "the look at the node's " + (at.empty() ? "state" : at) + " " + how +
               ", and was given up: a driver may hang",
       .fix =
           "if ranks on this node hang, leave it out with --exclude=NODE; `nvidia-smi` or `rocm-smi` there says more"});
  return findings;
}

std::vector<Finding> node_findings(const DoctorContext& of, milliseconds limit) {
  std::vector<NamedCheck> checks(kChecks.begin(), kChecks.end());
  if (is_first_node(of)) checks.insert(checks.end(), kOnFirstNode.begin(), kOnFirstNode.end());
  const auto child = run_limited([&](int pipe) { return make_checks(of, checks, pipe); }, limit);
  auto findings = findings_in(child, limit);
  std::erase_if(findings,
                [&](const Finding& each) { return each.code == "devices-missing" && !is_sure_of_devices(of); });
  for (auto& each : findings) {
    // A full quota is only a warning here, since a run that writes little can continue.
    if (each.code.starts_with("space-")) each.severity = std::min(each.severity, Severity::kWarning);
  }
  return findings;
}

/// Replaces this process by the program. Its standard output goes to `out`.
int start(const std::vector<std::string>& command, const Environment& env, int out) {
  ::dup2(out, STDOUT_FILENO);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  try {
    become(found_program(command.front(), env), command, env);
  } catch (const std::exception& error) {
    const std::string text = std::string("lockstep: ") + error.what() + "\n";
    static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  }
  return 127;
}

/// The answer of kAskTorch.
struct TorchAnswer {
  bool is_python = false;    ///< The interpreter ran.
  bool is_imported = false;  ///< And has PyTorch.
  std::string version{};
  std::string cuda{};
  std::string hip{};
  bool sees_none = false;
  std::string why{};
};

TorchAnswer torch_answer(const std::string& said) {
  constexpr std::string_view kOpening = "lockstep: ";
  TorchAnswer answer;
  for (const auto& line : split(said, '\n')) {
    if (!line.starts_with(kOpening)) continue;
    const auto text = line.substr(kOpening.size());
    const auto words = split(text, ' ');
    answer.is_python = true;
    if (words.front() == "imported" && words.size() == 4) {
      answer.is_imported = true;
      answer.version = words[1];
      answer.cuda = words[2] == "None" ? "" : words[2];
      answer.hip = words[3] == "None" ? "" : words[3];
    }
    if (text.starts_with("no device")) {
      answer.sees_none = true;
      answer.why = std::string(trimmed(std::string_view(text).substr(9)));
    }
  }
  return answer;
}

/// Returns a text such as "CUDA_VISIBLE_DEVICES='0,1'" for each variable of this kind that is set.
std::string device_lists(const Environment& env) {
  std::vector<std::string> shown;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    const auto it = env.all().find(name);
    if (it != env.all().end()) shown.push_back(name + ("='" + it->second + "'"));
  }
  return shown.empty() ? "no variable hides any" : joined(shown, ", ");
}

Finding not_seen(const DoctorContext& of, const TorchAnswer& torch) {
  const std::string made_for = !torch.cuda.empty()  ? "CUDA " + torch.cuda
                               : !torch.hip.empty() ? "ROCm " + torch.hip
                                                    : "the CPU only";
  std::string fact =
      "torch.cuda.is_available() is False in the program's Python, want True in a job with devices: PyTorch " +
      torch.version + " is made for " + made_for + ", " + device_lists(of.env);
  if (!torch.why.empty()) fact += ", and it says '" + torch.why + "'";
  std::string fix = made_for == "the CPU only"
                        ? "install a PyTorch for this system's devices: https://pytorch.org/get-started/locally"
                        : "in a container see that it gets --nv or --rocm; else try another node: --exclude=" + of.host;
  return {.code = "devices-not-seen",
          .severity = Severity::kError,
          .fact = std::move(fact),
          .fix = fix + "; a program that is to run on the CPU: --devices 0, or LOCKSTEP_DOCTOR=off lockstep submit …"};
}

void ask_torch(const DoctorContext& of, const ProgramTrial& trial, milliseconds limit, NodeLook& look) {
  auto command = trial.command;
  command.insert(command.end(), {"-c", kAskTorch});
  const auto child = run_limited([&](int pipe) { return start(command, of.env, pipe); }, limit);
  const auto torch = torch_answer(child.said);
  const auto time = shortest(static_cast<double>(limit.count()) / 1e3) + " s";
  if (torch.sees_none) {
    look.findings.push_back(not_seen(of, torch));
  } else if (child.exit_code) {
    // If the program fails after Python has started, that is no finding here, since its ranks will report it in full.
    look.has_started = torch.is_python || child.exit_code == 0;
  } else if (torch.is_imported) {
    look.findings.push_back({.code = "devices-not-answering",
                             .severity = Severity::kError,
                             .fact = "torch.cuda.is_available() did not return within " + time + ": the driver hangs",
                             .fix = "leave the node out with --exclude=" + of.host + " and tell the support"});
  } else {
    look.findings.push_back({.code = "check-too-long",
                             .severity = Severity::kWarning,
                             .fact = "importing PyTorch on one node took more than " + time + ", want seconds",
                             .fix = "take the environment to the nodes' own disks: lockstep submit --stage ENV"});
  }
}

void try_program(const DoctorContext& of, const ProgramTrial& trial, const NodeLimits& limits, NodeLook& look) {
  constexpr std::chrono::hours kNoLimit{24 * 365};
  if (trial.is_python && of.env.get("LOCKSTEP_DOCTOR") != "off") return ask_torch(of, trial, limits.torch, look);
  auto command = trial.command;
  if (trial.is_python) command.insert(command.end(), {"-c", ""});
  const auto child = run_limited(
      [&](int) {
        const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
        return start(command, of.env, nothing);
      },
      kNoLimit);
  look.has_started = child.exit_code == 0;
}

}  // namespace

NodeLook look_at_node(DoctorContext of, const ProgramTrial& trial, const NodeLimits& limits) {
  NodeLook look{.node = of.env.get("SLURMD_NODENAME").value_or(of.host)};
  of.host = look.node;
  if (of.env.get("LOCKSTEP_DOCTOR") != "off") {
    Findings ignored;
    place(of, ignored);
    look.findings = node_findings(of, limits.look);
  }
  if (is_first_node(of) && !trial.command.empty() && !has_error(look.findings)) try_program(of, trial, limits, look);
  look.is_sick = std::ranges::any_of(look.findings, [](const Finding& each) {
    return each.severity == Severity::kError && std::ranges::find(kOfTheJob, each.code) == kOfTheJob.end();
  });
  return look;
}

}  // namespace lockstep
