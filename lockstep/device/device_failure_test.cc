// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/device_failure.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "tests/support/fake_device.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// TorchScript throws each exception of LibTorch again as a std::runtime_error, with its stack first.
std::runtime_error from_script(const std::string& said) {
  return std::runtime_error(
      "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call "
      "last):\n  File \"<string>\", line 3, in forward\nRuntimeError: " +
      said + "\nand advice for developers\n");
}

TEST(DeviceFailure, OfMemoryIsKnownByItsTypeOrItsText) {
  const std::string said = "CUDA out of memory. Tried to allocate 2.00 GiB.";
  EXPECT_TRUE(is_out_of_memory(c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "no room")));
  EXPECT_TRUE(is_out_of_memory(from_script(said)));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("CUDA error: unspecified launch failure")));
  EXPECT_FALSE(is_out_of_memory(Error(ErrorKind::kPeer, "rank 1 left the others: " + said)));
}

TEST(DeviceFailure, IsToldByItsOwnLine) {
  const testing::FakeBackend one(1);
  const RankDevice device{.facts = one.devices().front(), .visible = 1, .backend = &one};
  const auto memory = device_failure(from_script("HIP out of memory. Tried to allocate 2.00 GiB."), device);
  ASSERT_TRUE(memory);
  EXPECT_HAS(std::string(memory->fact()),
             " ran out of memory (RuntimeError: HIP out of memory. Tried to allocate 2.00 ");
  EXPECT_EQ(memory->fact().find("advice"), std::string_view::npos);
  const auto launch = device_failure(from_script("CUDA error: unspecified launch failure"), device);
  ASSERT_TRUE(launch);
  EXPECT_HAS(std::string(launch->fact()), "(RuntimeError: CUDA error: unspecified launch failure)");
  EXPECT_FALSE(device_failure(std::runtime_error("no such layer"), device));
}

}  // namespace
}  // namespace lockstep
