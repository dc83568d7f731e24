// SPDX-License-Identifier: Apache-2.0
// The fault: any error was reported as "a peer rank was lost" if a function in LibTorch's stack trace had NCCL in its
// name.
#include <gtest/gtest.h>

#include "lockstep/comm/group_impl.h"

namespace lockstep {
namespace {

TEST(TransportFailure, IsToldByTheWordsOfAnErrorNotByItsStack) {
  const auto stack = std::make_shared<c10::PrecomputedLazyValue<std::string>>(
      "frame #0: c10d::ProcessGroupNCCL::allreduce, which timed out");
  EXPECT_FALSE(is_transport_failure(c10::Error("sizes do not match", stack)));
  EXPECT_FALSE(is_timeout(c10::Error("sizes do not match", stack)));
  EXPECT_TRUE(is_transport_failure(c10::Error("NCCL error in: work.cpp", stack)));
}

}  // namespace
}  // namespace lockstep
