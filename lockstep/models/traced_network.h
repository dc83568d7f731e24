// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/models/network.h"

namespace lockstep {

/// A record of a network's operations in training. python/lockstep_host/compile.py compiles the network from it.
struct TracedNetwork {
  std::string archive;  ///< A TorchScript module in PyTorch's format, with the facts as an extra file.
  std::string text;     ///< The operations and the facts. Networks that compute the same have the same text.
};

/// Runs the network once on `batch`, in training mode, and records its operations. Its inputs become arguments, in
/// this order: trained and frozen parameters, buffers, the batch. Sizes are constants, so the record is for batches of
/// this shape. The network's buffers change.
///
/// Throws: Error(kUsage) if the network's operations cannot be recorded, with LibTorch's reason.
TracedNetwork trace_network(Network& network, const at::Tensor& batch);

}  // namespace lockstep
