// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/run_facts.h"

#include <torch/torch.h>

#include "lockstep/base/system_files.h"

namespace lockstep {

std::map<std::string, std::string> run_facts(const Group& group, c10::Device device, Precision precision) {
  std::map<std::string, std::string> all = {
      {"device", device.str()}, {"precision", precision_name(precision)},
      {"torch", TORCH_VERSION}, {"threads", std::to_string(at::get_num_threads())},
      {"host", host_name()},    {"launcher", group.placement().source}};
  const auto& own = group.device();
  if (own.is_cpu()) return all;
  const auto runtime = own.backend->runtime();
  all.insert({{"device_name", own.facts.name},
              {"device_pci", own.facts.pci},
              {"device_uuid", own.facts.uuid},
              {"device_architecture", own.facts.architecture},
              {"driver", runtime.driver},
              {"runtime", runtime.kind + " " + runtime.runtime},
              {"collectives", runtime.collectives}});
  return all;
}

std::optional<std::int64_t> peak_bytes(const RankDevice& device) {
  return device.is_cpu() ? std::nullopt : std::optional(device.memory().peak);
}

}  // namespace lockstep
