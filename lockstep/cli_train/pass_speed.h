// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "lockstep/models/network.h"
#include "lockstep/train/precision.h"

namespace lockstep {

/// Seconds of one forward and one backward pass on this rank's CPU.
struct PassSeconds {
  double plain = 0;
  double compiled = 0;
};

/// Measures the network that `make` returns, without and with the compiled passes of `file`, by turns for some seconds.
/// The generators of random numbers are as before.
///
/// `example` has the shape and type of a batch of this rank. Its numbers do not count. Throws: as
/// make_compiled_network()'s first batch.
PassSeconds pass_seconds(const std::function<std::shared_ptr<Network>()>& make, const std::filesystem::path& file,
                         const at::Tensor& example, Precision precision);

}  // namespace lockstep
