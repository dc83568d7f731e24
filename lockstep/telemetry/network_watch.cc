// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/network_watch.h"

#include <fstream>
#include <sstream>

#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_in(const fs::path& folder) {
  const auto names = names_in(folder);
  return names.empty() ? std::nullopt : std::optional(names.front());
}

}  // namespace

std::optional<std::string> network_in(std::string_view line) {
  constexpr std::string_view kUntil226 = "NCCL INFO Using network ";
  constexpr std::string_view kFrom227 = "NCCL INFO Assigned NET plugin ";
  constexpr std::string_view kToComm = " to comm";
  if (const auto at = line.find(kUntil226); at != std::string_view::npos) {
    return std::string(trimmed(line.substr(at + kUntil226.size())));
  }
  if (const auto at = line.find(kFrom227); at != std::string_view::npos) {
    auto name = trimmed(line.substr(at + kFrom227.size()));
    if (name.ends_with(kToComm)) name.remove_suffix(kToComm.size());
    return std::string(name);
  }
  return std::nullopt;
}

std::optional<std::string> fast_network(const Environment& env, const fs::path& root) {
  if (env.get("NCCL_NET") == "Socket" || env.get("NCCL_IB_DISABLE") == "1") return std::nullopt;
  if (const auto cxi = first_in(root / "sys/class/cxi")) return "Slingshot (" + *cxi + ")";
  const auto verbs = first_in(root / "sys/class/infiniband");
  if (!verbs) return std::nullopt;
  return (verbs->starts_with("efa")   ? "EFA ("
          : verbs->starts_with("hfi") ? "Omni-Path ("
                                      : "InfiniBand (") +
         *verbs + ")";
}

std::optional<std::string> NetworkWatch::look() {
  if (has_warned_) return std::nullopt;
  for (auto& [path, seen] : read_) {
    std::ifstream log(path, std::ios::binary);
    log.seekg(static_cast<std::streamoff>(seen));
    for (std::string line; std::getline(log, line);) {
      if (log.eof()) break;  // Its end is still to come: read it again next time.
      seen += line.size() + 1;
      if (network_in(line) != "Socket") continue;
      has_warned_ = true;
      const bool is_slingshot = fast_.starts_with("Slingshot");
      return "NCCL talks over plain sockets though this node has " + fast_ + ", many times slower: '" +
             std::string(trimmed(line)) + "' (" + path.string() + ")\n  hint: " +
             (is_slingshot ? "put the OFI plugin (librccl-net.so or libnccl-net.so) in LD_LIBRARY_PATH and set "
                             "NCCL_NET='AWS Libfabric'"
                           : "check that the container has libibverbs and /dev/infiniband, and NCCL_IB_HCA; set "
                             "NCCL_NET=IB to fail instead") +
             "; NCCL_NET=Socket says that sockets are meant";
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
