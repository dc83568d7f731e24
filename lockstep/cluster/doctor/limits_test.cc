// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_node.h"
#include "tests/support/node_faults.h"
#include "tests/support/process.h"

namespace lockstep {
namespace {

using testing::AsNobody;
using testing::FakeNode;
using testing::Fault;
using testing::in_child;
using testing::no_file;

void set_soft_limit(__rlimit_resource_t resource, rlim_t value) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(resource, &limit), 0);
  limit.rlim_cur = value == RLIM_INFINITY ? limit.rlim_max : std::min(value, limit.rlim_max);
  ASSERT_EQ(::setrlimit(resource, &limit), 0);
}

/// Expects the fault if the limit is `too_low`, and no finding if the limit is as high as possible. Runs in a child
/// process, since a process cannot raise its limits again.
void expect_limit_fault(FakeNode& node, Fault fault, __rlimit_resource_t resource, rlim_t too_low) {
  const auto limit = [resource](rlim_t value) {
    return [=](FakeNode& of) {
      set_soft_limit(resource, value);
      of.of.system.limits = ProcessLimits::of_process();
    };
  };
  fault.broken = limit(too_low);
  fault.mended = limit(RLIM_INFINITY);
  in_child([&] {
    fault.mended(node);
    expect_fault(node, fault);
  });
}

TEST(LimitFault, TooFewOpenFiles) {
  FakeNode node;
  expect_limit_fault(node, {.code = "limit-open-files", .fact = "may open 128 files, want 1024"}, RLIMIT_NOFILE, 128);
}

TEST(LimitFault, TooLittleLockedMemoryForTheFastNetwork) {
  testing::LumiNode node;
  in_child([&] {
    // On few systems a process may raise this limit again. So the healthy node is only simulated.
    set_soft_limit(RLIMIT_MEMLOCK, 65536);
    expect_fault(node, {.code = "limit-locked-memory",
                        .fact = "may lock 64.0 KiB",
                        .broken = [](FakeNode& of) { of.of.system.limits = ProcessLimits::of_process(); },
                        .mended =
                            [](FakeNode& of) {
                              of.of.system.limits.locked_bytes = {kUnlimited, kUnlimited};
                            }});
  });
}

TEST(LimitFault, TooLittleLockedMemoryMattersBetweenNodesOnly) {
  FakeNode node("juwels-booster");
  node.infiniband();
  node.slurm(2, 4);
  expect_fault(node, {.code = "limit-locked-memory",
                      .fact = "may lock 8.0 MiB of memory, want no limit: the adapters of InfiniBand (mlx5_0)",
                      .broken =
                          [](FakeNode& of) {
                            of.of.system.limits.locked_bytes = {8U << 20U, 8U << 20U};
                          },
                      .mended = [](FakeNode& of) { of.slurm(1, 4); }});
}

TEST(LimitFault, ASmallStack) {
  FakeNode node;
  expect_limit_fault(node, {.code = "limit-stack", .fact = "may grow to 1.0 MiB, want 8.0 MiB"}, RLIMIT_STACK,
                     1U << 20U);
}

TEST(LimitFault, TooFewProcesses) {
  FakeNode node;
  expect_limit_fault(node, {.code = "limit-processes", .fact = "may have 100 threads"}, RLIMIT_NPROC, 100);
}

TEST(LimitFault, ALimitedAddressSpace) {
#ifdef LOCKSTEP_SANITIZED
  GTEST_SKIP() << "the sanitizer itself maps more than the limit allows";
#endif
  FakeNode node;
  node.nvidia_gpus(1);
  expect_limit_fault(node, {.code = "limit-address-space", .fact = "may map 64.0 GiB"}, RLIMIT_AS, rlim_t{64} << 30U);
}

/// Mounts a file system in memory at `path`, which only this process sees.
bool mount_small(const std::filesystem::path& path, const char* options) {
  return testing::unshare_mounts() && ::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0;
}

/// Mount options of a file system that is large enough, and the options that make it too small.
struct SmallMount {
  std::string path{};
  const char* sound = "";
  const char* small = "";
};

testing::Change mounted_anew(const std::string& path, const char* options) {
  return [=](FakeNode& node) { ASSERT_EQ(::mount("", node.path(path).c_str(), "", MS_REMOUNT, options), 0); };
}

/// Expects the fault in a separate process that has such a mount, after `prepared` has written the files that the test
/// needs.
void expect_space_fault(FakeNode& node, const SmallMount& mount, Fault fault, const testing::Change& prepared = {}) {
  std::filesystem::create_directories(node.path(mount.path));
  if (!fault.broken) fault.broken = mounted_anew(mount.path, mount.small);
  if (!fault.mended) fault.mended = mounted_anew(mount.path, mount.sound);
  in_child([&] {
    if (!mount_small(node.path(mount.path), mount.sound)) testing::skip_child();
    if (prepared) prepared(node);
    expect_fault(node, fault);
  });
}

TEST(SharedMemoryFault, IsMissing) {
  FakeNode node;
  expect_fault(node, {.code = "shm-missing", .fact = "/dev/shm is not there", .broken = no_file("/dev/shm")});
}

TEST(SharedMemoryFault, IsAsSmallAsDockersDefault) {
  FakeNode node;
  expect_space_fault(node, {"/dev/shm", "size=2g", "size=64m"},
                     {.code = "shm-small", .fact = "/dev/shm holds 64.0 MiB"});
}

TEST(SharedMemoryFault, IsFullOfWhatEndedProgramsLeft) {
  FakeNode node;
  node.slurm(1, 14);
  // A file system of 1 GiB can be mounted on a machine with less memory, since only written bytes take memory.
  expect_space_fault(node, {"/dev/shm", "size=1g,nr_blocks=262144"},
                     {.code = "shm-full",
                      .fact = "free of 1.0 GiB",
                      .broken = testing::file("/dev/shm/nccl-left", std::string(std::size_t{160} << 20U, 'x')),
                      .mended = no_file("/dev/shm/nccl-left")});
}

TEST(SpaceFault, TheRunFolderIsTooSmallForItsSnapshots) {
  FakeNode node;
  node.of.run.run_dir = "/scratch/run";
  expect_space_fault(
      node, {"/scratch/run", "size=4g", "size=4m"},
      {.code = "space-low", .fact = "free, want 1.0 GiB for 2 snapshots of 1.0 MiB and logs"},
      testing::file("/scratch/run/snapshots/step-0000000010/model.safetensors", std::string(1U << 20U, 'x')));
}

TEST(SpaceFault, NoMoreFilesMayBeMade) {
  FakeNode node;
  node.of.run.run_dir = "/scratch/run";
  expect_space_fault(node, {"/scratch/run", "size=4g,nr_inodes=100k", "nr_inodes=100"},
                     {.code = "space-no-files", .fact = "can take"});
}

TEST(SpaceFault, TheNodesOwnDiskIsFull) {
  FakeNode node;
  expect_space_fault(node, {"/tmp", "size=2g", "size=16m"}, {.code = "space-node-full", .fact = "'/tmp' has"});
}

TEST(SpaceFault, TheRunFolderCannotBeWritten) {
  FakeNode node;
  node.of.run.run_dir = "/scratch/run";
  node.write("/scratch/run/job.sh", "");
  ::chmod(node.of.root.c_str(), 0755);
  ::chmod(node.path("/scratch/run").c_str(), 0777);
  const AsNobody nobody;
  const bool is_root = ::getuid() == 0;
  const auto mode = [is_root](mode_t bits) {
    return [=](FakeNode& of) {
      if (is_root) {
        EXPECT_EQ(::seteuid(0), 0);
      }
      ::chmod(of.path("/scratch/run").c_str(), bits);
      if (is_root) {
        EXPECT_EQ(::seteuid(65534), 0);
      }
    };
  };
  expect_fault(node, {.code = "space-not-writable",
                      .fact = "'/scratch/run' cannot be written",
                      .broken = mode(0555),
                      .mended = mode(0777)});
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
    return ProcessResult{.exit_code = 0, .output = answer, .errors = {}};
  };
  // Output of Lustre's `lfs quota`: a long path has a line of its own, and a star marks a number over its limit.
  const std::string path = node.path("/scratch/run").string();
  const auto says = [&](const std::string& text) { return [&answer, text](FakeNode&) { answer = text; }; };
  const auto sound = says(path + "\n                 1048576  0 1073741824       -   12000       0 2000000       -\n");
  sound(node);
  expect_fault(node, {.code = "space-quota",
                      .fact = "want 5.0 GiB for 2 snapshots of 2.0 GiB",
                      .broken = says(path + "\n 1073741000* 0 1073741824 - 12000 0 2000000 -\n"),
                      .mended = sound});
  expect_fault(node, {.code = "space-quota-files",
                      .fact = "allows 2000000 files",
                      .broken = says(path + "\n 1048576 0 1073741824 - 1999900 0 2000000 -\n"),
                      .mended = sound});
  EXPECT_EQ(asked[2], "lfs");
}

TEST(SpaceFault, TheQuotaOfAProjectsFilesetOnGpfsIsUsedUp) {
  FakeNode node;
  node.of.run.run_dir = "/p/scratch/proj/run";
  node.of.run.snapshot_bytes = std::uint64_t{2} << 30U;
  node.write("/p/scratch/proj/run/job.sh", "");
  node.write("/proc/self/mountinfo",
             "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n22 20 0:6 / /p/scratch rw - gpfs /dev/scratch rw\n");
  std::string used = "1048576";
  node.of.system.run = [&](const std::vector<std::string>& command) {
    const auto none = ProcessResult{.exit_code = 127, .output = {}, .errors = {}};
    const auto says = [](const std::string& text) {
      return ProcessResult{.exit_code = 0, .output = text, .errors = {}};
    };
    // The tools of GPFS are not in PATH.
    if (command[2] == "/usr/lpp/mmfs/bin/mmlsattr") {
      return says("file name:            " + command.back() + "\nfileset name:         proj\nsnapshot name:\n");
    }
    if (command[2] != "/usr/lpp/mmfs/bin/mmlsquota" || command[6] != "scratch" || command[4] != "-j") return none;
    // Output of `mmlsquota -Y`, in KiB.
    return says(
        "mmlsquota::HEADER:version:reserved:reserved:filesystemName:quotaType:id:name:blockUsage:blockQuota:blockLimit:"
        "blockInDoubt:blockGrace:filesUsage:filesQuota:filesLimit:filesInDoubt:filesGrace:remarks:\n"
        "mmlsquota::0:1:::scratch:FILESET:7:" +
        command[5] + ":" + used + ":1000000000:1073741824:0:none:12000:0:2000000:0:none:e:\n");
  };
  expect_fault(node, {.code = "space-quota",
                      .fact = "the quota of fileset proj leaves",
                      .broken = [&](FakeNode&) { used = "1073741000"; },
                      .mended = [&](FakeNode&) { used = "1048576"; }});
}

TEST(SpaceFault, TheProjectsQuotaIsUsedUp) {
  FakeNode node;
  node.of.run.run_dir = "/scratch/run";
  node.of.run.snapshot_bytes = std::uint64_t{2} << 30U;
  node.write("/scratch/run/job.sh", "");
  std::string used = "1048576";
  node.of.system.run = [&](const std::vector<std::string>& command) {
    const auto& folder = command.back();
    if (command[3] == "project")
      return ProcessResult{.exit_code = 0, .output = "462000001 P " + folder + "\n", .errors = {}};
    const bool is_project = command[5] == "-p" && command[6] == "462000001";
    // The user's own quota has no limit, as on a system that counts by projects.
    const std::string row = is_project ? used + " 0 1073741824 - 12000 0 2000000 -" : "1048576 0 0 - 12000 0 0 -";
    return ProcessResult{.exit_code = 0, .output = folder + " " + row + "\n", .errors = {}};
  };
  expect_fault(node, {.code = "space-quota",
                      .fact = "the quota of project 462000001 leaves",
                      .broken = [&](FakeNode&) { used = "1073741000*"; },
                      .mended = [&](FakeNode&) { used = "1048576"; }});
}

TEST(BudgetFault, TheAccountHasTooLittleForTheJobsTime) {
  testing::JuwelsNode node;
  const auto end = std::chrono::system_clock::now() + std::chrono::hours(10);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(end.time_since_epoch()).count();
  node.set({{"SLURM_JOB_ACCOUNT", "proj"},
            {"SLURM_JOB_PARTITION", "booster"},
            {"SLURM_JOB_NUM_NODES", "2"},
            {"LOCKSTEP_JOB_END", std::to_string(seconds)}});
  std::string used = "100";
  node.of.system.run = [&](const std::vector<std::string>& command) {
    if (command[2] != "sshare") return ProcessResult{.exit_code = 127, .output = {}, .errors = {}};
    return ProcessResult{.exit_code = 0, .output = " proj||cpu=600000|cpu=" + used + "\n", .errors = {}};
  };
  // Ten hours on two nodes of 48 cores are 960 core-hours. The account's 600000 minutes are 10000 core-hours.
  expect_fault(node, {.code = "budget-low",
                      .fact = "account proj has 100.0 of its 10000.0 core-hours left, want 960.0",
                      .broken = [&](FakeNode&) { used = "594000"; },
                      .mended = [&](FakeNode&) { used = "540000"; }});
}

}  // namespace
}  // namespace lockstep
