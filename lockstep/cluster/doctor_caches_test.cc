// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_node.h"
#include "tests/support/process.h"

namespace lockstep {
namespace {

using testing::AsNobody;
using testing::expect_fault;
using testing::FakeNode;

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
  expect_fault(
      node, "cache-shared-file-system", "lies on lustre",
      [&] { node.set("MIOPEN_USER_DB_PATH", "/scratch/me/miopen"); },
      [&] { node.set("MIOPEN_USER_DB_PATH", "/tmp/caches"); });
}

TEST_F(CacheFault, ByDefaultInAHomeThatAllNodesSee) {
  for (const char* name : {"MIOPEN_CUSTOM_CACHE_DIR", "TRITON_CACHE_DIR"}) node.set(name, "/tmp/caches");
  expect_fault(
      node, "cache-at-home", "'/users/me/.config/miopen' on nfs4", [&] { node.unset("MIOPEN_USER_DB_PATH"); },
      [&] { node.set("MIOPEN_USER_DB_PATH", "/tmp/caches"); });
}

TEST_F(CacheFault, OfSomebodyElse) {
  SKIP_WITHOUT_ROOT();
  expect_fault(
      node, "cache-of-another", "belongs to user 12345",
      [&] { ASSERT_EQ(::chown(node.path("/tmp/caches").c_str(), 12345, 12345), 0); },
      [&] { ASSERT_EQ(::chown(node.path("/tmp/caches").c_str(), 0, 0), 0); });
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
  expect_fault(
      node, "cache-not-writable", "TRITON_CACHE_DIR='/tmp/shut/triton' is not there and cannot be made",
      [&] { node.set("TRITON_CACHE_DIR", "/tmp/shut/triton"); },
      [&] { node.set("TRITON_CACHE_DIR", "/tmp/open/triton"); });
}

}  // namespace
}  // namespace lockstep
