// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "lockstep/comm/join.h"
#include "lockstep/device/device.h"

namespace lockstep::testing {

/// Returns a group of one rank on this node's first GPU.
inline Group on_gpu() {
  Placement first;
  first.device = 0;
  return join(first, Environment{}, {.accelerator = Accelerator::kGpu});
}

}  // namespace lockstep::testing

/// Begins a test that needs a GPU. If the node has a GPU that cannot be used, the test fails.
#define REQUIRE_GPU() \
  if (!lockstep::node_has_gpus()) GTEST_SKIP() << "this node has no GPU: neither /dev/nvidiactl nor /dev/kfd is there"
