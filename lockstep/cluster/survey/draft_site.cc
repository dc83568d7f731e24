// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/draft_site.h"

#include <algorithm>
#include <cctype>

#include "lockstep/base/text.h"
#include "lockstep/cluster/survey/module_list.h"
#include "lockstep/cluster/survey/mounts.h"

namespace lockstep {
namespace {

constexpr const char* kAskLive = "`lockstep profile new --live` asks a compute node";

/// Returns the node's interfaces, best first. If it has Slingshot, these are all of its Slingshot interfaces. Otherwise
/// they are the InfiniBand interfaces, or else the fastest one.
std::vector<std::string> ranked_interfaces(const NodeView& node) {
  std::vector<std::string> slingshot;
  std::vector<std::string> infiniband;
  std::vector<InterfaceView> others;
  for (const auto& each : node.interfaces) {
    if (each.name.starts_with("hsn")) {
      slingshot.push_back(each.name);
    } else if (each.name.starts_with("ib")) {
      infiniband.push_back(each.name);
    } else {
      others.push_back(each);
    }
  }
  std::ranges::stable_sort(others, std::ranges::greater{}, &InterfaceView::mbit);
  std::vector<std::string> ranked;
  if (!slingshot.empty()) ranked.push_back(joined(slingshot, ","));
  ranked.insert(ranked.end(), infiniband.begin(), infiniband.end());
  for (const auto& each : others) ranked.push_back(each.name);
  return ranked;
}

std::int64_t slingshot_gbit(const NodeView& node) {
  std::int64_t mbit = 0;
  for (const auto& each : node.interfaces) mbit += each.name.starts_with("hsn") ? each.mbit : 0;
  return mbit / 1000;
}

void draft_adapters(ProfileDraft& draft, const NodeView& node) {
  auto& network = draft.profile.network;
  const bool is_slingshot = node.has_cxi;
  const auto gbit = is_slingshot ? slingshot_gbit(node) : node.hca_gbit;
  if (is_slingshot || !node.hcas.empty()) {
    network.kind = is_slingshot ? "Slingshot" : "InfiniBand";
    draft.note("network.kind",
               is_slingshot ? "/sys/class/cxi of " + node.host : "/sys/class/infiniband of " + node.host);
  }
  if (!is_slingshot && !node.hcas.empty()) {
    network.hcas = node.hcas;
    draft.note("network.hcas", "/sys/class/infiniband of " + node.host + ": ports that are up");
  }
  if (gbit < 8) return draft.gap("network.node_gbs", "GB/s of a node's adapters, one way: the site's pages");
  network.node_gbs = gbit / 8;
  draft.note("network.node_gbs", std::to_string(gbit) + " Gb/s by the adapters of " + node.host);
}

bool is_about_torch(const std::string& module) {
  std::string name = module;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool is_plain = std::ranges::all_of(module, [](unsigned char c) { return c > 32 && c < 127; });
  return is_plain && name.find("torch") != std::string::npos;
}

void draft_node_local(ProfileDraft& draft, const MachineFacts& facts) {
  const auto& node = facts.answers.node;
  if (!node) {
    draft.gap("storage.node_local", std::string("/tmp is taken, be it disk or memory: ") + kAskLive);
    return draft.gap("storage.internet", std::string("whether compute nodes reach it: ") + kAskLive);
  }
  auto& storage = draft.profile.storage;
  for (const auto& folder : node->folders) {
    if (folder.path != "/tmp" || !folder.may_write) continue;
    storage.node_local = folder.path;
    draft.note("storage.node_local", "a task on " + node->host + " may write there");
    storage.node_local_is_memory = is_memory_type(folder.type);
    draft.note("storage.node_local_is_memory", "/proc/self/mounts of " + node->host + ": " + folder.type);
  }
  if (node->has_default_route) {
    return draft.gap("storage.internet", "a default route is there: try `srun curl -sI https://pypi.org`");
  }
  storage.internet = false;
  draft.note("storage.internet", "/proc/net/route of " + node->host + " has no default route");
}

}  // namespace

void draft_network(ProfileDraft& draft, const MachineFacts& facts) {
  const auto& node = facts.answers.node;
  if (!node) {
    if (!facts.answers.network.empty()) {
      draft.profile.network.kind = facts.answers.network;
      draft.note("network.kind", "adapters of the login node in /sys/class");
      draft.profile.about.unverified.emplace_back("network.kind");
    }
    return draft.gap("network.interfaces", std::string("generic's list of usual names is tried: ") + kAskLive);
  }
  if (auto ranked = ranked_interfaces(*node); !ranked.empty()) {
    draft.profile.network.interfaces = std::move(ranked);
    draft.note("network.interfaces", "those with an address on " + node->host + ", the fast network's first");
  } else {
    draft.gap("network.interfaces", "no interface of " + node->host + " has an address but loopback");
  }
  draft_adapters(draft, *node);
}

void draft_storage(ProfileDraft& draft, const MachineFacts& facts) {
  auto& storage = draft.profile.storage;
  const auto& answers = facts.answers;
  if (answers.scratch.value.empty()) {
    std::vector<std::string> shared;
    for (const auto& mount : parsed_mounts(answers.mounts)) {
      if (is_shared_type(mount.type) && shared.size() < 6) shared.push_back(mount.folder + " (" + mount.type + ")");
    }
    draft.gap("storage.scratch",
              "runs lie in ./runs without it; " + (shared.empty() ? std::string("no shared file system is mounted here")
                                                                  : "mounted are " + joined(shared, ", ")));
  } else {
    storage.scratch = answers.scratch.value;
    draft.note("storage.scratch", answers.scratch.source);
  }
  if (!answers.project.value.empty()) {
    storage.project = answers.project.value;
    draft.note("storage.project", answers.project.source);
  }
  draft_node_local(draft, facts);
}

void draft_software(ProfileDraft& draft, const MachineFacts& facts) {
  const auto& runtimes = facts.answers.container_runtimes;
  if (runtimes.empty()) {
    draft.gap("container.runtime", "none is in PATH of the login node; `module avail` may have one");
  } else {
    draft.profile.container.runtime = runtimes.front();
    draft.note("container.runtime", "in PATH of the login node");
  }
  std::vector<std::string> torch;
  for (const auto& name : parsed_modules(facts.answers.modules)) {
    if (is_about_torch(name)) torch.push_back(name);
  }
  if (!torch.empty()) {
    draft.profile.software.torch = "a module: " + joined(torch, ", ");
    draft.note("software.torch", "module -t avail");
  }
  const bool has_modules = !facts.answers.modules.empty();
  draft.gap("modules.load", has_modules ? "what your programs need, as in [\"" +
                                              (torch.empty() ? std::string("python") : torch.back()) + "\"]"
                                        : "no module system was found on the login node");
}

}  // namespace lockstep
