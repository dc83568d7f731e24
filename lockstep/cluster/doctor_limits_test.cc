// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_node.h"
#include "tests/support/process.h"

namespace lockstep {
namespace {

using testing::AsNobody;
using testing::expect_fault;
using testing::FakeNode;
using testing::in_child;

void set_soft_limit(__rlimit_resource_t resource, rlim_t value) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(resource, &limit), 0);
  limit.rlim_cur = value == RLIM_INFINITY ? limit.rlim_max : std::min(value, limit.rlim_max);
  ASSERT_EQ(::setrlimit(resource, &limit), 0);
}

void expect_limit_fault(FakeNode& node, const std::string& code, const std::string& fact, __rlimit_resource_t resource,
                        rlim_t too_low) {
  in_child([&] {
    set_soft_limit(resource, RLIM_INFINITY);
    node.of.system.limits = ProcessLimits::of_process();
    const auto set = [&](rlim_t value) {
      set_soft_limit(resource, value);
      node.of.system.limits = ProcessLimits::of_process();
    };
    expect_fault(
        node, code, fact, [&] { set(too_low); }, [&] { set(RLIM_INFINITY); });
  });
}

TEST(LimitFault, TooFewOpenFiles) {
  FakeNode node;
  expect_limit_fault(node, "limit-open-files", "may open 128 files, want 1024", RLIMIT_NOFILE, 128);
}

TEST(LimitFault, TooLittleLockedMemoryForTheFastNetwork) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may raise this limit again";
  FakeNode node("lumi-g");
  node.amd_gpus(8);
  node.slingshot();
  node.slurm(2, 8, 8);
  in_child([&] {
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_MEMLOCK, &unlimited) != 0) testing::skip_child();
    expect_limit_fault(node, "limit-locked-memory", "may lock 64.0 KiB", RLIMIT_MEMLOCK, 65536);
  });
}

TEST(LimitFault, TooLittleLockedMemoryMattersBetweenNodesOnly) {
  FakeNode node("juwels-booster");
  node.infiniband();
  node.slurm(2, 4);
  expect_fault(
      node, "limit-locked-memory", "may lock 8.0 MiB of memory, want no limit: the adapters of InfiniBand (mlx5_0)",
      [&] {
        node.of.system.limits.locked_bytes = {8U << 20U, 8U << 20U};
      },
      [&] { node.slurm(1, 4); });
}

TEST(LimitFault, ASmallStack) {
  FakeNode node;
  expect_limit_fault(node, "limit-stack", "may grow to 1.0 MiB, want 8.0 MiB", RLIMIT_STACK, 1U << 20U);
}

TEST(LimitFault, TooFewProcesses) {
  FakeNode node;
  expect_limit_fault(node, "limit-processes", "may have 100 threads", RLIMIT_NPROC, 100);
}

TEST(LimitFault, ALimitedAddressSpace) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer itself maps more than the limit allows";
#endif
  FakeNode node;
  node.nvidia_gpus(1);
  expect_limit_fault(node, "limit-address-space", "may map 64.0 GiB", RLIMIT_AS, rlim_t{64} << 30U);
}

/// A file system in memory of its own at `path`, for this process alone.
bool mount_small(const std::filesystem::path& path, const char* options) {
  if (::unshare(CLONE_NEWNS) != 0) return false;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return ::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0;
}

TEST(SharedMemoryFault, IsMissing) {
  FakeNode node;
  expect_fault(
      node, "shm-missing", "/dev/shm is not there", [&] { node.remove("/dev/shm"); },
      [&] { std::filesystem::create_directories(node.path("/dev/shm")); });
}

TEST(SharedMemoryFault, IsAsSmallAsDockersDefault) {
  SKIP_WITHOUT_ROOT();
  FakeNode node;
  in_child([&] {
    if (!mount_small(node.path("/dev/shm"), "size=2g")) testing::skip_child();
    expect_fault(
        node, "shm-small", "/dev/shm holds 64.0 MiB",
        [&] { ASSERT_EQ(::mount("", node.path("/dev/shm").c_str(), "", MS_REMOUNT, "size=64m"), 0); },
        [&] { ASSERT_EQ(::mount("", node.path("/dev/shm").c_str(), "", MS_REMOUNT, "size=2g"), 0); });
  });
}

TEST(SharedMemoryFault, IsFullOfWhatEndedProgramsLeft) {
  SKIP_WITHOUT_ROOT();
  FakeNode node;
  in_child([&] {
    // 1 GiB may be mounted on a machine with less: only what is written takes memory.
    if (!mount_small(node.path("/dev/shm"), "size=1g,nr_blocks=262144")) testing::skip_child();
    const auto left = node.path("/dev/shm/nccl-left");
    node.slurm(1, 14);
    node.set("SLURM_CPUS_ON_NODE", "56");
    expect_fault(
        node, "shm-full", "free of 1.0 GiB",
        [&] { node.write("/dev/shm/nccl-left", std::string(std::size_t{160} << 20U, 'x')); },
        [&] { std::filesystem::remove(left); });
  });
}

TEST(SpaceFault, TheRunFolderIsTooSmallForItsSnapshots) {
  SKIP_WITHOUT_ROOT();
  FakeNode node;
  node.of.run.run_dir = "/scratch/run";
  std::filesystem::create_directories(node.path("/scratch/run"));
  in_child([&] {
    if (!mount_small(node.path("/scratch/run"), "size=4g")) testing::skip_child();
    node.write("/scratch/run/snapshots/step-0000000010/model.safetensors", std::string(1U << 20U, 'x'));
    expect_fault(
        node, "space-low", "free, want 1.0 GiB for 2 snapshots of 1.0 MiB and logs",
        [&] { ASSERT_EQ(::mount("", node.path("/scratch/run").c_str(), "", MS_REMOUNT, "size=4m"), 0); },
        [&] { ASSERT_EQ(::mount("", node.path("/scratch/run").c_str(), "", MS_REMOUNT, "size=4g"), 0); });
  });
}

TEST(SpaceFault, NoMoreFilesMayBeMade) {
  SKIP_WITHOUT_ROOT();
  FakeNode node;
  node.of.run.run_dir = "/scratch/run";
  std::filesystem::create_directories(node.path("/scratch/run"));
  in_child([&] {
    if (!mount_small(node.path("/scratch/run"), "size=4g,nr_inodes=100k")) testing::skip_child();
    expect_fault(
        node, "space-no-files", "can take",
        [&] { ASSERT_EQ(::mount("", node.path("/scratch/run").c_str(), "", MS_REMOUNT, "nr_inodes=100"), 0); },
        [&] { ASSERT_EQ(::mount("", node.path("/scratch/run").c_str(), "", MS_REMOUNT, "nr_inodes=100k"), 0); });
  });
}

TEST(SpaceFault, TheNodesOwnDiskIsFull) {
  SKIP_WITHOUT_ROOT();
  FakeNode node;
  std::filesystem::create_directories(node.path("/tmp"));
  in_child([&] {
    if (!mount_small(node.path("/tmp"), "size=2g")) testing::skip_child();
    expect_fault(
        node, "space-node-full", "'/tmp' has",
        [&] { ASSERT_EQ(::mount("", node.path("/tmp").c_str(), "", MS_REMOUNT, "size=16m"), 0); },
        [&] { ASSERT_EQ(::mount("", node.path("/tmp").c_str(), "", MS_REMOUNT, "size=2g"), 0); });
  });
}

TEST(SpaceFault, TheRunFolderCannotBeWritten) {
  FakeNode node;
  node.of.run.run_dir = "/scratch/run";
  node.write("/scratch/run/job.sh", "");
  ::chmod(node.of.root.c_str(), 0755);
  ::chmod(node.path("/scratch/run").c_str(), 0777);
  const AsNobody nobody;
  const bool is_root = ::getuid() == 0;
  const auto set = [&](mode_t mode) {
    if (is_root) {
      EXPECT_EQ(::seteuid(0), 0);
    }
    ::chmod(node.path("/scratch/run").c_str(), mode);
    if (is_root) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  };
  expect_fault(
      node, "space-not-writable", "'/scratch/run' cannot be written", [&] { set(0555); }, [&] { set(0777); });
}

TEST(SpaceFault, TheQuotaIsUsedUp) {
  FakeNode node;
  node.of.run.run_dir = "/scratch/run";
  node.of.run.snapshot_bytes = std::uint64_t{2} << 30U;
  node.write("/scratch/run/job.sh", "");
  std::string answer;
  std::vector<std::string> asked;
  node.of.system.run = [&](const std::vector<std::string>& command) {
    asked = command;
    return ToolResult{.exit_code = 0, .output = answer, .errors = {}};
  };
  // As Lustre's tool prints it: a long path stands in a line of its own, and a star marks what is over.
  const std::string path = node.path("/scratch/run").string();
  const std::string sound = path + "\n                 1048576  0 1073741824       -   12000       0 2000000       -\n";
  answer = sound;
  expect_fault(
      node, "space-quota", "want 5.0 GiB for 2 snapshots of 2.0 GiB",
      [&] { answer = path + "\n 1073741000* 0 1073741824 - 12000 0 2000000 -\n"; }, [&] { answer = sound; });
  expect_fault(
      node, "space-quota-files", "allows 2000000 files",
      [&] { answer = path + "\n 1048576 0 1073741824 - 1999900 0 2000000 -\n"; }, [&] { answer = sound; });
  EXPECT_EQ(asked[2], "lfs");
}

}  // namespace
}  // namespace lockstep
