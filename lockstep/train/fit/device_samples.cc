// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/device_samples.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

DeviceSamples::DeviceSamples(const StepOptions& options, const Group& group) : options_(options), group_(group) {
  if (options.device.keep_data == Toggle::kOn && group.device().is_cpu()) {
    throw Error(ErrorKind::kRecipe, "data.on_device is on, but this rank computes on a CPU",
                "leave it at auto, which caches samples if there is a GPU");
  }
}

void DeviceSamples::keep(Loader& loader, const std::string& part) {
  const auto toggle = options_.device.keep_data;
  if (group_.device().is_cpu() || toggle == Toggle::kOff) return;
  const auto reason = why_not(loader);
  if (reason.empty()) {
    const auto bytes = DeviceCache::bytes_of(*loader.source().fixed());
    loader.cache_on(group_.device().device);
    bytes_ += bytes;
    findings_[part + " data"] = "kept on the device: " + human_bytes(static_cast<std::uint64_t>(bytes));
  } else if (toggle == Toggle::kOn) {
    throw Error(ErrorKind::kRecipe, "data.on_device is on, but the " + part + " data cannot be kept there: " + reason,
                "leave it at auto, which caches them if it can");
  }
}

// Returns the reason why the samples are not kept in the device's memory. Empty if they are kept.
std::string DeviceSamples::why_not(const Loader& loader) const {
  if (options_.replicas > 1) return "trainer.strategy dp hands parts of a batch to several devices";
  const auto fixed = loader.source().fixed();
  if (!fixed) return "chance changes more of a sample than which pixels are taken";
  if (options_.device.keep_data == Toggle::kOn) return {};
  // In an epoch each rank decodes only its own part of the samples. To keep them all, each rank would have to decode
  // all.
  if (!loader.source().is_in_memory() && group_.world() > 1) return "each rank would decode all of them";
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  constexpr std::int64_t kShare = 16;
  const auto limit = std::min(kMost, group_.device().memory().available / kShare);
  return DeviceCache::bytes_of(*fixed) <= limit ? "" : "they are many";
}

}  // namespace lockstep
