// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "lockstep/base/file.h"
#include "tests/support/fake_node.h"
#include "tests/support/process.h"

namespace lockstep {
namespace {

using testing::expect_fault;
using testing::FakeNode;
using testing::found;
using testing::in_child;

struct NetworkFault : ::testing::Test {
  NetworkFault() {
    node.nvidia_gpus(4);
    node.infiniband();
    node.slurm(2, 4, 4);
  }
  FakeNode node{"juwels-booster"};
};

TEST_F(NetworkFault, AnInterfaceThatIsNotThere) {
  expect_fault(
      node, "network-interface-missing", "NCCL_SOCKET_IFNAME names hsn0, this node has lo, ib0",
      [&] { node.set("NCCL_SOCKET_IFNAME", "hsn0"); }, [&] { node.unset("NCCL_SOCKET_IFNAME"); });
  expect_fault(
      node, "network-interface-missing", "GLOO_SOCKET_IFNAME", [&] { node.set("GLOO_SOCKET_IFNAME", "eth1"); },
      [&] { node.set("GLOO_SOCKET_IFNAME", "ib0"); });
}

TEST_F(NetworkFault, NoFastInterfaceAtAll) {
  const auto sound = node.of.system.interfaces;
  expect_fault(
      node, "network-no-fast-interface", "none of the interfaces that juwels-booster has (ib0)",
      [&] {
        node.of.system.interfaces = {{"lo", true, {"127.0.0.1"}}, {"eth0", true, {"10.0.0.1"}}};
      },
      [&] { node.of.system.interfaces = sound; });
}

TEST(SlingshotFault, OneOfFourInterfacesGone) {
  FakeNode node("lumi-g");
  node.amd_gpus(8);
  node.slingshot();
  node.slurm(2, 8, 8);
  const auto sound = node.of.system.interfaces;
  expect_fault(
      node, "network-interface-gone", "no interface hsn3", [&] { node.of.system.interfaces.pop_back(); },
      [&] { node.of.system.interfaces = sound; });
}

/// In a network of this process alone, where loopback is down at first and can be brought up.
TEST_F(NetworkFault, AnInterfaceThatIsDown) {
  SKIP_WITHOUT_ROOT();
  in_child([&] {
    if (::unshare(CLONE_NEWNET) != 0) testing::skip_child();
    node.of.profile.network.interfaces = {"lo"};
    const auto set_up = [&](bool is_up) {
      const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM, 0));
      ifreq request{};
      std::strcpy(request.ifr_name, "lo");
      request.ifr_flags = static_cast<short>(is_up ? IFF_UP | IFF_RUNNING : 0);
      ASSERT_EQ(::ioctl(socket.get(), SIOCSIFFLAGS, &request), 0);
      node.of.system.interfaces = SystemView::of_process(node.of.env).interfaces;
    };
    set_up(true);
    expect_fault(
        node, "network-interface-down", "the interface lo is down", [&] { set_up(false); }, [&] { set_up(true); });
  });
}

TEST_F(NetworkFault, ANameThatDoesNotResolve) {
  const auto sound = node.of.system.addresses_of;
  std::string asked;
  expect_fault(
      node, "network-name-unknown", "'n1i' does not resolve",
      [&] { node.of.system.addresses_of = [](const std::string&) { return std::vector<std::string>{}; }; },
      [&] { node.of.system.addresses_of = sound; });
}

TEST_F(NetworkFault, ANameThatMeansLoopback) {
  const auto sound = node.of.system.addresses_of;
  expect_fault(
      node, "network-name-loopback", "127.0.1.1",
      [&] { node.of.system.addresses_of = [](const std::string&) { return std::vector<std::string>{"127.0.1.1"}; }; },
      [&] { node.of.system.addresses_of = sound; });
}

TEST_F(NetworkFault, ANameOfTheSlowNetwork) {
  const auto sound = node.of.system.addresses_of;
  expect_fault(
      node, "network-name-slow", "no address of ib0",
      [&] { node.of.system.addresses_of = [](const std::string&) { return std::vector<std::string>{"192.168.0.1"}; }; },
      [&] { node.of.system.addresses_of = sound; });
}

TEST_F(NetworkFault, APortThatIsTaken) {
  node.of.system.is_port_free = SystemView::of_process(node.of.env).is_port_free;
  FileDescriptor holder;
  expect_fault(
      node, "network-port-taken", "is taken on rank 0's node",
      [&] {
        holder = FileDescriptor(::socket(AF_INET6, SOCK_STREAM, 0));
        ASSERT_EQ(::listen(holder.get(), 1), 0);  // Takes any free port.
        sockaddr_in6 bound{};
        socklen_t size = sizeof bound;
        ASSERT_EQ(::getsockname(holder.get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
        node.set("MASTER_PORT", std::to_string(ntohs(bound.sin6_port)));
      },
      [&] { holder.reset(); });
}

TEST_F(NetworkFault, APortThatIsNone) {
  expect_fault(
      node, "network-port-invalid", "MASTER_PORT='70000'", [&] { node.set("MASTER_PORT", "70000"); },
      [&] { node.unset("MASTER_PORT"); });
}

TEST_F(NetworkFault, AnAdapterThatIsNotThere) {
  expect_fault(
      node, "network-adapter-missing", "NCCL_IB_HCA names mlx5_9", [&] { node.set("NCCL_IB_HCA", "mlx5_0,mlx5_9"); },
      [&] { node.set("NCCL_IB_HCA", "mlx5_0"); });
}

TEST_F(NetworkFault, AnAdapterWithoutALink) {
  const std::string state = "/sys/class/infiniband/mlx5_4/ports/1/state";
  expect_fault(
      node, "network-adapter-down", "port 1 of mlx5_4 is '1: DOWN'", [&] { node.write(state, "1: DOWN\n"); },
      [&] { node.write(state, "4: ACTIVE\n"); });
}

TEST_F(NetworkFault, AdaptersThatAContainerCannotOpen) {
  node.set("APPTAINER_CONTAINER", "/image.sif");
  expect_fault(
      node, "network-adapter-hidden", "/dev/infiniband is not there", [&] { node.remove("/dev/infiniband"); },
      [&] { std::filesystem::create_directories(node.path("/dev/infiniband")); });
}

struct LogFault : ::testing::Test {
  LogFault() { node.of.run.run_dir = "/run"; }
  void log(const std::string& lines) const { node.write("/run/logs/nccl-0000.log", lines); }
  FakeNode node{"lumi-g"};
  const std::string sound =
      "nid005001:1:2 [0] NCCL INFO NET/OFI Using aws-ofi-rccl 1.4.0\n"
      "nid005001:1:2 [0] NCCL INFO NET/OFI Selected Provider is cxi\n"
      "nid005001:1:2 [0] NCCL INFO Using network AWS Libfabric\n"
      "nid005001:1:2 [0] NCCL INFO comm 0x7f rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0\n";
};

TEST_F(LogFault, SocketsOnAFastNetwork) {
  log(sound);
  expect_fault(
      node, "log-sockets",
      "Slingshot-11, four adapters of 200 Gb/s: 'nid005001:1:2 [0] NCCL INFO Using network Socket'",
      [&] {
        log("nid005001:1:2 [0] NCCL INFO NET/Socket : Using [0]hsn0:10.0.0.7<0>\n"
            "nid005001:1:2 [0] NCCL INFO Using network Socket\n");
      },
      [&] { log(sound); });
}

TEST_F(LogFault, APluginThatWasNotLoaded) {
  log(sound);
  expect_fault(
      node, "log-plugin-not-loaded", "No plugin found",
      [&] {
        log("a:1:2 [0] NCCL INFO NET/Plugin : No plugin found (librccl-net.so), using internal implementation\n"
            "a:1:2 [0] NCCL INFO Using network Socket\n");
      },
      [&] { log(sound); });
}

TEST_F(LogFault, AProviderThatIsNoFastOne) {
  log(sound);
  expect_fault(
      node, "log-provider-wrong", "Selected Provider is tcp;ofi_rxm",
      [&] {
        log("a:1:2 [0] NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)\n"
            "a:1:2 [0] NCCL INFO Using network AWS Libfabric\n");
      },
      [&] { log(sound); });
}

TEST_F(LogFault, NoDirectCopiesFromTheDevice) {
  log(sound);
  expect_fault(
      node, "log-no-direct-copies", "GPU Direct RDMA Disabled",
      [&] { log(sound + "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"); },
      [&] { log(sound); });
}

TEST_F(LogFault, AWarningOfNcclsIsANote) {
  log(sound);
  expect_fault(
      node, "log-warning", "iommu=pt",
      [&] { log(sound + "a:1:2 [0] NCCL WARN Missing \"iommu=pt\" from kernel command line\n"); }, [&] { log(sound); });
}

TEST_F(LogFault, SocketsWithinOneNodeAreNone) {
  log("a:1:2 [0] NCCL INFO Using network Socket\na:1:2 [0] NCCL INFO comm 0x7f rank 0 nRanks 8 nNodes 1 localRanks "
      "8\n");
  EXPECT_EQ(found(node.findings(), "log-sockets"), nullptr);
}

}  // namespace
}  // namespace lockstep
