// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/nccl_settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace lockstep {
namespace {

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "unset" : value;
}

TEST(NcclSettings, EndARunInSecondsAfterAFailure) {
  set_where_unset(nccl_settings());
  EXPECT_EQ(value_of("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "2");
  EXPECT_EQ(value_of("TORCH_NCCL_RETHROW_CUDA_ERRORS"), "0");
  EXPECT_EQ(value_of("TORCH_NCCL_DUMP_ON_TIMEOUT"), "0");
  EXPECT_EQ(value_of("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"), "250");
  EXPECT_EQ(value_of("TORCH_NCCL_ENABLE_MONITORING"), "0");
  EXPECT_EQ(value_of("NCCL_GRAPH_REGISTER"), "0");
  EXPECT_EQ(value_of("NCCL_ALGO"), "unset") << "only a deterministic run does without NVLS";
}

TEST(NcclSettings, OfADeterministicRunLeaveOutWhatAddsInAnyOrder) {
  set_where_unset(deterministic_settings());
  EXPECT_EQ(value_of("NCCL_ALGO"), "^NVLS");
  EXPECT_EQ(value_of("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
}

TEST(NcclSettings, LeaveWhatAPersonHasSet) {
  ::setenv("NCCL_ALGO", "Ring", /*overwrite=*/1);
  ::setenv("TORCH_NCCL_ENABLE_MONITORING", "1", /*overwrite=*/1);
  set_where_unset(nccl_settings());
  set_where_unset(deterministic_settings());
  EXPECT_EQ(value_of("NCCL_ALGO"), "Ring");
  EXPECT_EQ(value_of("TORCH_NCCL_ENABLE_MONITORING"), "1");
}

}  // namespace
}  // namespace lockstep
