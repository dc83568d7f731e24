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

/// The part of a training's state that only one rank has, after some step. No other rank can give it to a process that
/// is started in this rank's place.
struct RankPart {
  LossSums losses;
  SampleDigest digest;
  MetricSums metrics;                     ///< The module's metrics in the current epoch.
  std::map<std::string, double> numbers;  ///< Numbers of this rank's listeners, such as "early_stopping.best".
};

/// Returns the size of a part's record, with its tensors.
std::size_t record_bytes(const RankPart& part, const std::vector<at::Tensor>& buffers);

/// Writes the record into `out`, which has record_bytes().
void write_record(const RankPart& part, const std::vector<at::Tensor>& buffers, std::span<std::byte> out);

/// Reads a record, and copies its tensors into `buffers`.
/// Throws: Error(kBug) if the record has other tensors, or is incomplete. Then some of `buffers` may have changed.
RankPart read_record(std::span<const std::byte> record, const std::vector<at::Tensor>& buffers);

}  // namespace lockstep
