// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/nccl_settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/support/watched_device.h"

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
  EXPECT_EQ(value_of("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"), "1000000");
  EXPECT_EQ(value_of("NCCL_GRAPH_REGISTER"), "0");
  EXPECT_EQ(value_of("NCCL_ALGO"), "unset") << "only a deterministic run does without NVLS";
}

TEST(NcclSettings, OfADeterministicRunLeaveOutWhatAddsInAnyOrder) {
  set_where_unset(deterministic_settings());
  EXPECT_EQ(value_of("NCCL_ALGO"), "^NVLS,NVLSTree") << "NCCL compares whole names";
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

TEST(NcclSettings, OfADeterministicRunAreAskedForWhereRanksHaveJoinedWithoutThem) {
  ::unsetenv("NCCL_ALGO");
  testing::WatchedDevice device;
  const auto two = device.group(std::chrono::hours(1), 2), one = device.group(std::chrono::hours(1));
  EXPECT_HAS(testing::message_of(ErrorKind::kUsage, [&] { require_deterministic_collectives(two); }),
             "hint: set NCCL_ALGO=^NVLS,NVLSTree before join()");
  EXPECT_NO_THROW(require_deterministic_collectives(one));
  device.runtime_now.kind = "ROCm";
  EXPECT_NO_THROW(require_deterministic_collectives(two)) << "RCCL has no such sums";
  device.runtime_now.kind = "CUDA";
  set_where_unset(deterministic_settings());
  EXPECT_NO_THROW(require_deterministic_collectives(two));
}

TEST(NcclSettings, ReplaceWhatTorchrunHasSetByItself) {
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", /*overwrite=*/1);
  set_where_unset(nccl_settings());
  EXPECT_EQ(value_of("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "1") << "without torchrun it is the user's";
  ::setenv("TORCHELASTIC_RUN_ID", "none", /*overwrite=*/1);
  set_where_unset(nccl_settings());
  EXPECT_EQ(value_of("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "2");
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", /*overwrite=*/1);
  set_where_unset(nccl_settings());
  EXPECT_EQ(value_of("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3") << "torchrun sets no such value";
  ::unsetenv("TORCHELASTIC_RUN_ID");
}

}  // namespace
}  // namespace lockstep
