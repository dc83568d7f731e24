// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lockstep {

/// The tensors that a compression keeps from step to step, by name. Those named "error.…" differ from rank to rank. All
/// others are the same on every rank.
using CompressionState = std::map<std::string, at::Tensor>;

/// Returns the state of all ranks on rank 0, in separate memory on the CPU, and nothing on the others. `process` is
/// null for a single rank. One tensor is sent at a time, so only the result itself grows with the number of ranks.
///
/// Shape:  returns "error.…" as [world, …], the others as they are.
/// Collective: yes. Blocks: yes.
CompressionState gather_compression(const CompressionState& own, c10d::ProcessGroup* process);

/// Returns a rank's part of a tensor that gather_compression() returned. If the number of ranks is the same as before,
/// that is the rank's own error, otherwise the mean over all ranks. Older versions wrote only the mean, without the
/// dimension of ranks. Every rank then gets that mean.
///
/// Shape:  error [ranks, rows, columns] or [rows, columns], returns [rows, columns]; others as they are.
at::Tensor own_compression(const std::string& name, const at::Tensor& saved, int rank, int world);

}  // namespace lockstep
