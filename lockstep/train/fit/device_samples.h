// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/loader/loader.h"
#include "lockstep/train/fit/trainer_options.h"

namespace lockstep {

/// Keeps whole data sets in a device's memory, if they are small enough or if `data.on_device` asks for it.
class DeviceSamples {
 public:
  /// `group` and `options` must outlive this object. Throws: Error(kRecipe) if `data.on_device` is on and this rank
  /// computes on a CPU.
  DeviceSamples(const StepOptions& options, const Group& group);

  /// Reads all samples of `loader` into the device's memory, unless there is a reason against it. Call it before the
  /// loader's first batch. `part` names the data, such as "training". Blocks: until all samples are in the device's
  /// memory. Throws: Error(kRecipe) if `data.on_device` is on and the samples cannot be kept.
  void keep(Loader& loader, const std::string& part);

  std::int64_t bytes() const { return bytes_; }
  /// Returns which parts were cached, by names such as "training data", for RunEnded::facts.
  const std::map<std::string, std::string>& findings() const { return findings_; }

 private:
  std::string why_not(const Loader& loader) const;

  const StepOptions& options_;
  const Group& group_;
  std::int64_t bytes_ = 0;
  std::map<std::string, std::string> findings_;
};

}  // namespace lockstep
