// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/snapshot/snapshot.h"
#include "lockstep/train/sums/loss_counter.h"

namespace lockstep {

/// The part of a training's state that a rank has for itself, after some step. No other rank can give it to a process
/// that is started in the rank's place.
struct RankPart {
  LossSums losses;
  SampleDigest digest;
  MetricSums metrics;                     ///< Of the module, in the current epoch.
  std::map<std::string, double> numbers;  ///< Of this rank's listeners, such as "early_stopping.best".
};

/// The size of a part's record, with its tensors.
std::size_t record_bytes(const RankPart& part, const std::vector<at::Tensor>& buffers);

/// Writes the record into `out`, which has record_bytes().
void write_record(const RankPart& part, const std::vector<at::Tensor>& buffers, std::span<std::byte> out);

/// Reads a record, and copies its tensors into `buffers`.
/// Throws: Error(kBug) if the record is of other tensors, or cut short. Then `buffers` may hold a part of it.
RankPart read_record(std::span<const std::byte> record, const std::vector<at::Tensor>& buffers);

}  // namespace lockstep
