// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_node.h"
#include "tests/support/node_faults.h"
#include "tests/support/process.h"

namespace lockstep {
namespace {

using testing::AsNobody;
using testing::FakeNode;
using testing::no_variable;
using testing::variable;

struct CacheFault : ::testing::Test {
  CacheFault() {
    node.amd_gpus(8);
    node.slurm(1, 8, 8);
    ::chmod(node.of.root.c_str(), 0755);
    std::filesystem::create_directories(node.path("/tmp/caches"));
    node.set("MIOPEN_USER_DB_PATH", "/tmp/caches");
  }
  FakeNode node{"crukci-rocm"};
};

TEST_F(CacheFault, OnAFileSystemThatAllNodesSee) {
  std::filesystem::create_directories(node.path("/scratch/me/miopen"));
  expect_fault(node, {.code = "cache-shared-file-system",
                      .fact = "lies on lustre",
                      .broken = variable("MIOPEN_USER_DB_PATH", "/scratch/me/miopen"),
                      .mended = variable("MIOPEN_USER_DB_PATH", "/tmp/caches")});
}

TEST_F(CacheFault, ByDefaultInAHomeThatAllNodesSee) {
  node.set({{"MIOPEN_CUSTOM_CACHE_DIR", "/tmp/caches"}, {"TRITON_CACHE_DIR", "/tmp/caches"}});
  expect_fault(node, {.code = "cache-at-home",
                      .fact = "'/users/me/.config/miopen' on nfs4",
                      .broken = no_variable("MIOPEN_USER_DB_PATH")});
}

TEST_F(CacheFault, OfSomebodyElse) {
  const bool is_root = ::geteuid() == 0;
  expect_fault(node, {.code = "cache-of-another",
                      .fact = is_root ? "belongs to user 12345" : "belongs to user 0",
                      .broken = [&](FakeNode& of) {
                        if (is_root) {
                          ASSERT_EQ(::chown(of.path("/tmp/caches").c_str(), 12345, 12345), 0);
                          return;
                        }
                        // Only root can give a folder to another user. Otherwise the test uses /usr, which belongs to
                        // root on every system.
                        of.remove("/tmp/caches");
                        std::filesystem::create_directory_symlink("/usr", of.path("/tmp/caches"));
                      }});
}

TEST_F(CacheFault, ThatCannotBeMade) {
  std::filesystem::create_directories(node.path("/tmp/open"));
  std::filesystem::create_directories(node.path("/tmp/shut"));
  ::chmod(node.path("/tmp/open").c_str(), 0777);
  ::chmod(node.path("/tmp/shut").c_str(), 0555);
  for (const char* device : {"/dev/kfd", "/dev/dri/renderD128"}) ::chmod(node.path(device).c_str(), 0666);
  const AsNobody nobody;
  node.set("TRITON_CACHE_DIR", "/tmp/open/triton");
  node.set("MIOPEN_USER_DB_PATH", "/tmp/open/miopen");
  expect_fault(node, {.code = "cache-not-writable",
                      .fact = "TRITON_CACHE_DIR='/tmp/shut/triton' is not there and cannot be made",
                      .broken = variable("TRITON_CACHE_DIR", "/tmp/shut/triton"),
                      .mended = variable("TRITON_CACHE_DIR", "/tmp/open/triton")});
}

}  // namespace
}  // namespace lockstep
