// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "lockstep/base/file.h"
#include "lockstep/launch/socket.h"
#include "tests/support/fake_node.h"
#include "tests/support/node_faults.h"
#include "tests/support/process.h"

namespace lockstep {
namespace {

using testing::FakeNode;
using testing::Fault;
using testing::file;
using testing::found;
using testing::in_child;
using testing::JuwelsNode;
using testing::no_file;
using testing::variable;

/// Sets the addresses to which a host name resolves.
testing::Change addresses(std::vector<std::string> found) {
  return [=](FakeNode& node) { node.of.system.addresses_of = [=](const std::string&) { return found; }; };
}

const std::vector<Fault> kOnJuwels = {
    {"AnInterfaceOfNcclsThatIsNotThere", "network-interface-missing",
     "NCCL_SOCKET_IFNAME names hsn0, this node has lo, ib0", variable("NCCL_SOCKET_IFNAME", "hsn0")},
    {"AnInterfaceOfGloosThatIsNotThere", "network-interface-missing", "GLOO_SOCKET_IFNAME",
     variable("GLOO_SOCKET_IFNAME", "eth1"), variable("GLOO_SOCKET_IFNAME", "ib0")},
    {"ANameOfGloosThatIsOnlyAPrefix", "network-interface-missing", "GLOO_SOCKET_IFNAME names ib, this node has",
     variable("GLOO_SOCKET_IFNAME", "ib"), variable("GLOO_SOCKET_IFNAME", "ib0")},
    {"AnInterfaceOfOursThatIsNotThere", "network-interface-missing", "LOCKSTEP_INTERFACE names eth1",
     variable("LOCKSTEP_INTERFACE", "eth1"), variable("LOCKSTEP_INTERFACE", "ib0")},
    {"NoFastInterfaceAtAll", "network-no-fast-interface", "none of the interfaces that juwels-booster has (ib0)",
     [](FakeNode& node) {
       node.of.system.interfaces = {{"lo", true, {"127.0.0.1"}}, {"eth0", true, {"10.0.0.1"}}};
     }},
    {"ANameThatDoesNotResolve", "network-name-unknown", "'n1i' does not resolve", addresses({})},
    {"ANameThatMeansLoopback", "network-name-loopback", "127.0.1.1", addresses({"127.0.1.1"})},
    {"ANameOfTheSlowNetwork", "network-name-slow", "no address of ib0", addresses({"192.168.0.1"})},
    {"APortThatIsNone", "network-port-invalid", "MASTER_PORT='70000'", variable("MASTER_PORT", "70000")},
    {"AnAdapterThatIsNotThere", "network-adapter-missing", "NCCL_IB_HCA names mlx5_9",
     variable("NCCL_IB_HCA", "mlx5_0,mlx5_9"), variable("NCCL_IB_HCA", "mlx5_0")},
    {"AnAdapterWithoutALink", "network-adapter-down", "port 1 of mlx5_4 is '1: DOWN'",
     file("/sys/class/infiniband/mlx5_4/ports/1/state", "1: DOWN\n")},
    {"AdaptersThatAContainerCannotOpen", "network-adapter-hidden", "/dev/infiniband is not there",
     [](FakeNode& node) {
       node.set("APPTAINER_CONTAINER", "/image.sif");
       node.remove("/dev/infiniband");
     },
     [](FakeNode& node) { std::filesystem::create_directories(node.path("/dev/infiniband")); }},
};
FAULT_TESTS(NetworkFault, JuwelsNode, kOnJuwels);

TEST(SlingshotFault, OneOfFourInterfacesGone) {
  testing::LumiNode node;
  expect_fault(node, {.code = "network-interface-gone", .fact = "no interface hsn3", .broken = [](FakeNode& of) {
                        of.of.system.interfaces.pop_back();
                      }});
}

/// Runs in a network namespace of its own. Loopback is down there at first, and can be brought up.
TEST(LinkFault, AnInterfaceThatIsDown) {
  JuwelsNode node;
  in_child([&] {
    if (!testing::unshare_as_root(CLONE_NEWNET)) testing::skip_child();
    node.of.profile.network.interfaces = {"lo"};
    const auto loopback = [](bool is_up) {
      return [=](FakeNode& of) {
        const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM, 0));
        ifreq request{};
        std::strcpy(request.ifr_name, "lo");
        request.ifr_flags = static_cast<short>(is_up ? IFF_UP | IFF_RUNNING : 0);
        ASSERT_EQ(::ioctl(socket.get(), SIOCSIFFLAGS, &request), 0);
        of.of.system.interfaces = SystemView::of_process(of.of.env).interfaces;
      };
    };
    loopback(true)(node);
    expect_fault(node, {.code = "network-interface-down",
                        .fact = "the interface lo is down",
                        .broken = loopback(false),
                        .mended = loopback(true)});
  });
}

TEST(PortFault, APortThatIsTaken) {
  JuwelsNode node;
  node.of.system.is_port_free = SystemView::of_process(node.of.env).is_port_free;
  FileDescriptor holder;
  const auto take_port = [&](FakeNode& of) {
    holder = FileDescriptor(::socket(AF_INET6, SOCK_STREAM, 0));
    ASSERT_EQ(::listen(holder.get(), 1), 0);  // Takes any free port.
    of.set("MASTER_PORT", std::to_string(port_of(holder)));
  };
  expect_fault(node, {.code = "network-port-taken",
                      .fact = "is taken on rank 0's node",
                      .broken = take_port,
                      .mended = [&](FakeNode&) { holder.reset(); }});
}

constexpr const char* kNcclLog = "/run/logs/nccl-0000.log";
const std::string kSoundLog =
    "nid005001:1:2 [0] NCCL INFO NET/OFI Using aws-ofi-rccl 1.4.0\n"
    "nid005001:1:2 [0] NCCL INFO NET/OFI Selected Provider is cxi\n"
    "nid005001:1:2 [0] NCCL INFO Using network AWS Libfabric\n"
    "nid005001:1:2 [0] NCCL INFO comm 0x7f rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0\n";

/// A node with a collective library's log from a run on LUMI.
struct LoggedNode : FakeNode {
  LoggedNode() : FakeNode("lumi-g") {
    of.run.run_dir = "/run";
    write(kNcclLog, kSoundLog);
  }
};

const std::vector<Fault> kLogged = {
    {"SocketsOnAFastNetwork", "log-sockets",
     "Slingshot-11, four adapters of 200 Gb/s: 'nid005001:1:2 [0] NCCL INFO Using network Socket'",
     file(kNcclLog,
          "nid005001:1:2 [0] NCCL INFO NET/Socket : Using [0]hsn0:10.0.0.7<0>\n"
          "nid005001:1:2 [0] NCCL INFO Using network Socket\n")},
    {"APluginThatWasNotLoaded", "log-plugin-not-loaded", "No plugin found",
     file(kNcclLog,
          "a:1:2 [0] NCCL INFO NET/Plugin : No plugin found (librccl-net.so), using internal implementation\n"
          "a:1:2 [0] NCCL INFO Using network Socket\n")},
    {"AProviderThatIsNoFastOne", "log-provider-wrong", "Selected Provider is tcp;ofi_rxm",
     file(kNcclLog,
          "a:1:2 [0] NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)\n"
          "a:1:2 [0] NCCL INFO Using network AWS Libfabric\n")},
    {"NoDirectCopiesFromTheDevice", "log-no-direct-copies", "GPU Direct RDMA Disabled",
     file(kNcclLog, kSoundLog + "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n")},
    {"AWarningOfNcclsIsANote", "log-warning", "iommu=pt",
     file(kNcclLog, kSoundLog + "a:1:2 [0] NCCL WARN Missing \"iommu=pt\" from kernel command line\n")},
};
FAULT_TESTS(LogFault, LoggedNode, kLogged);

TEST(SoundLog, MayHaveSocketsWithinOneNode) {
  LoggedNode node;
  node.write(kNcclLog,
             "a:1:2 [0] NCCL INFO Using network Socket\na:1:2 [0] NCCL INFO comm 0x7f rank 0 nRanks 8 nNodes 1 "
             "localRanks 8\n");
  EXPECT_EQ(found(node.findings(), "log-sockets"), nullptr);
}

}  // namespace
}  // namespace lockstep
