// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/network_watch.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

/// Lines from reports to NVIDIA/nccl (issues 676, 1053) and from a guide for LUMI, with other host names.
constexpr const char* kSockets =
    "axa:3048391:3048566 [0] NCCL INFO NET/IB : No device found.\n"
    "axa:3048391:3048566 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.7<0>\n"
    "axa:3048391:3048566 [0] NCCL INFO Using network Socket\n";
constexpr const char* kCxi =
    "nid005001:1:2 [0] NCCL INFO NET/OFI Using aws-ofi-rccl 1.4.0\n"
    "nid005001:1:2 [0] NCCL INFO NET/OFI Selected Provider is cxi\n"
    "nid005001:1:2 [0] NCCL INFO Using network AWS Libfabric\n";

void append(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::app) << text; }

TEST(NetworkWatch, ReadsTheNetworkOfOldAndNewNccl) {
  EXPECT_EQ(network_in("a:1:2 [0] NCCL INFO Using network Socket"), "Socket");
  EXPECT_EQ(network_in("a:1:2 [3] NCCL INFO Using network AWS Libfabric"), "AWS Libfabric");
  EXPECT_EQ(network_in("a:1:2 [0] NCCL INFO Assigned NET plugin IB to comm"), "IB");
  EXPECT_EQ(network_in("a:1:2 [0] NCCL INFO Assigned NET plugin Socket to comm"), "Socket");
  EXPECT_EQ(network_in("a:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>"), std::nullopt);
  EXPECT_EQ(network_in("a:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.7<0>"), std::nullopt)
      << "InfiniBand's first messages travel so too";
}

TEST(NetworkWatch, WarnsOnceOfSocketsWithTheLineAndTheFix) {
  const TemporaryFolder folder;
  NetworkWatch watch("InfiniBand (mlx5_0)");
  watch.follow(folder.path() / "nccl-0000.log");
  EXPECT_EQ(watch.look(), std::nullopt) << "the log is not there yet";
  append(folder.path() / "nccl-0000.log", kSockets);
  const auto warning = watch.look();
  ASSERT_TRUE(warning);
  EXPECT_HAS(*warning, "plain sockets though this node has InfiniBand (mlx5_0)");
  EXPECT_HAS(*warning, "'axa:3048391:3048566 [0] NCCL INFO Using network Socket'");
  EXPECT_HAS(*warning, "/dev/infiniband");
  EXPECT_EQ(watch.look(), std::nullopt);
}

TEST(NetworkWatch, OnSlingshotTheFixIsThePlugin) {
  const TemporaryFolder folder;
  append(folder.path() / "log", kSockets);
  NetworkWatch watch("Slingshot (cxi0)");
  watch.follow(folder.path() / "log");
  EXPECT_HAS(watch.look().value_or(""), "put the OFI plugin");
}

TEST(NetworkWatch, SaysNothingOfALogThatHasTheFastNetwork) {
  const TemporaryFolder folder;
  append(folder.path() / "log", kCxi);
  NetworkWatch watch("Slingshot (cxi0)");
  watch.follow(folder.path() / "log");
  EXPECT_EQ(watch.look(), std::nullopt);
}

TEST(NetworkWatch, ALineThatComesInTwoPartsIsReadOnceItIsWhole) {
  const TemporaryFolder folder;
  NetworkWatch watch("InfiniBand (mlx5_0)");
  watch.follow(folder.path() / "log");
  append(folder.path() / "log", "a:1:2 [0] NCCL INFO Using network So");
  EXPECT_EQ(watch.look(), std::nullopt);
  append(folder.path() / "log", "cket\n");
  EXPECT_TRUE(watch.look());
}

TEST(NetworkWatch, TheFastNetworkIsWhatTheKernelHasADriverFor) {
  const TemporaryFolder root;
  EXPECT_EQ(fast_network({}, root.path()), std::nullopt);
  fs::create_directories(root.path() / "sys/class/infiniband/mlx5_1");
  fs::create_directories(root.path() / "sys/class/infiniband/mlx5_0");
  EXPECT_EQ(fast_network({}, root.path()), "InfiniBand (mlx5_0)");
  fs::create_directories(root.path() / "sys/class/cxi/cxi0");
  EXPECT_EQ(fast_network({}, root.path()), "Slingshot (cxi0)");
}

TEST(NetworkWatch, SocketsThatTheUserChoseAreNoFault) {
  const TemporaryFolder root;
  fs::create_directories(root.path() / "sys/class/infiniband/mlx5_0");
  EXPECT_EQ(fast_network({{"NCCL_NET", "Socket"}}, root.path()), std::nullopt);
  EXPECT_EQ(fast_network({{"NCCL_IB_DISABLE", "1"}}, root.path()), std::nullopt);
}

}  // namespace
}  // namespace lockstep
