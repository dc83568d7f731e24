// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/logs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/files.h"
#include "lockstep/telemetry/network_watch.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLogs = 64;          // The ranks of eight nodes: what one rank's log says, all say.
constexpr std::size_t kMostBytes = 8U << 20U;  // NCCL logs its decisions at the beginning.

/// A line of a log, as it is and in lower case. Versions of NCCL differ in upper and lower case.
struct Line {
  std::string text;
  std::string lower;

  bool has(std::string_view part) const { return lower.find(part) != std::string::npos; }
};

/// The facts about the network in one rank's log.
struct LogFacts {
  fs::path path;
  bool is_one_node = false;
  bool has_fabric = false;  ///< The OFI plugin took over.
  std::string sockets{};    ///< The line that says so. Empty if none does.
  std::string no_plugin{};
  std::string provider{};  ///< The provider chosen, if it is none of a fast network.
  std::string no_direct{};
  std::string warning{};
};

/// Returns the provider, such as "tcp;ofi_rxm", from "NET/OFI Selected Provider is tcp;ofi_rxm" or "NET/OFI Selected
/// provider is cxi, fabric is cxi".
std::string provider_in(const Line& line) {
  constexpr std::string_view kBefore = "selected provider is ";
  const auto at = line.lower.find(kBefore);
  if (at == std::string::npos) return {};
  const auto rest = line.lower.substr(at + kBefore.size());
  return std::string(trimmed(rest.substr(0, rest.find_first_of(", ("))));
}

bool is_slow(const std::string& provider) {
  constexpr std::array<std::string_view, 4> kSlow = {"tcp", "sockets", "udp", "shm"};
  return std::ranges::any_of(kSlow, [&](auto prefix) { return provider.starts_with(prefix); });
}

bool tells_of_no_plugin(const Line& line) {
  constexpr std::array<std::string_view, 4> kSigns = {"no plugin found", "could not find", "cannot open shared object",
                                                      "failed to load"};
  if (!line.has("net/plugin") && !line.has("net/ofi")) return false;
  return std::ranges::any_of(kSigns, [&](auto sign) { return line.has(sign); });
}

void read_line(const Line& line, LogFacts& facts) {
  const auto keep = [&](std::string& first) {
    if (first.empty()) first = trimmed(line.text);
  };
  if (line.has(" nnodes 1 ")) facts.is_one_node = true;
  if (tells_of_no_plugin(line)) keep(facts.no_plugin);
  if (const auto network = network_in(line.text)) {
    if (network == "Socket") keep(facts.sockets);
    if (network == "AWS Libfabric" || network == "OFI") facts.has_fabric = true;
  }
  const auto provider = provider_in(line);
  if (is_slow(provider)) keep(facts.provider);
  if (line.has("gpu direct rdma disabled")) keep(facts.no_direct);
  if (line.has("nccl warn ")) keep(facts.warning);
}

LogFacts facts_of(const fs::path& path) {
  LogFacts facts;
  facts.path = path;
  std::ifstream log(path, std::ios::binary);
  std::size_t bytes = 0;
  for (std::string text; bytes < kMostBytes && std::getline(log, text);) {
    bytes += text.size() + 1;
    Line line{.text = text, .lower = text + " "};
    std::ranges::transform(line.lower, line.lower.begin(), [](unsigned char c) { return std::tolower(c); });
    read_line(line, facts);
  }
  return facts;
}

std::vector<fs::path> logs_of(const DoctorContext& of) {
  std::vector<fs::path> logs;
  for (const auto& log : of.run.logs) logs.push_back(of.at_root(log));
  const auto folder = of.at_root(of.run.run_dir) / "logs";
  for (const auto& name : names_in(folder)) {
    if (!of.run.run_dir.empty() && name.starts_with("nccl-")) logs.push_back(folder / name);
  }
  if (logs.size() > kMostLogs) logs.resize(kMostLogs);
  return logs;
}

/// Returns the high-speed network that the run could use: the network of this node, or else the one in the profile.
std::string network_of(const DoctorContext& of) {
  if (const auto fast = fast_network(Environment{}, of.root)) return *fast;
  return of.profile.network.kind;
}

bool needs_plugin(const DoctorContext& of) {
  const auto& lines = of.profile.network.expected_log;
  const bool by_profile = std::ranges::any_of(lines, [](const auto& line) { return line.starts_with("NET/OFI"); });
  const auto network = network_of(of);
  return by_profile || network.starts_with("Slingshot") || network.starts_with("EFA");
}

std::string quoted(const LogFacts& facts, const std::string& line) {
  return "'" + line + "' (" + facts.path.string() + ")";
}

void judge(const DoctorContext& of, const LogFacts& facts, Findings& findings) {
  const auto network = network_of(of);
  const std::string plugin_fix =
      "put the OFI plugin (librccl-net.so or libnccl-net.so) in LD_LIBRARY_PATH, or load its module, and set "
      "NCCL_NET='AWS Libfabric' so that it fails instead of falling back";
  if (!facts.sockets.empty() && !network.empty() && !facts.is_one_node) {
    findings.error("log-sockets",
                   "NCCL used plain sockets though the nodes have " + network + ": " + quoted(facts, facts.sockets),
                   needs_plugin(of) ? plugin_fix
                                    : "check that the container has libibverbs and /dev/infiniband, and NCCL_IB_HCA; "
                                      "NCCL_NET=IB fails instead of falling back");
  }
  if (!facts.no_plugin.empty() && needs_plugin(of) && !facts.has_fabric && !facts.is_one_node) {
    findings.error("log-plugin-not-loaded",
                   "NCCL did not load the network plugin that " + network + " needs: " + quoted(facts, facts.no_plugin),
                   plugin_fix);
  }
  if (!facts.provider.empty() && !network.empty() && !facts.is_one_node) {
    findings.error("log-provider-wrong",
                   "the plugin took a provider of libfabric that is no fast one: " + quoted(facts, facts.provider),
                   "unset FI_PROVIDER, and put the system's own libfabric first in LD_LIBRARY_PATH");
  }
  if (!facts.no_direct.empty()) {
    findings.warning("log-no-direct-copies",
                     "the adapter cannot read the devices' memory, so all traffic goes through the host's: " +
                         quoted(facts, facts.no_direct),
                     "the kernel module nvidia_peermem or amdgpu's peer support is missing: tell the support");
  }
  if (!facts.warning.empty()) {
    findings.note("log-warning", "NCCL's first warning: " + quoted(facts, facts.warning),
                  "look it up in NCCL's troubleshooting page if the run hangs or is slow");
  }
}

}  // namespace

void check_logs(const DoctorContext& of, Findings& findings) {
  Findings all;
  for (const auto& log : logs_of(of)) judge(of, facts_of(log), all);
  // All ranks' logs report the same faults, so each is reported once.
  std::vector<std::string> told;
  for (const auto& finding : all.list()) {
    if (std::ranges::find(told, finding.code) != told.end()) continue;
    told.push_back(finding.code);
    findings.add(finding.severity, finding.code, finding.fact, finding.fix);
  }
}

}  // namespace lockstep
