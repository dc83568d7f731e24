// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor_variables.h"

#include <gtest/gtest.h>

#include "tests/support/fake_node.h"

namespace lockstep {
namespace {

using testing::expect_fault;
using testing::FakeNode;
using testing::found;

/// Every row of the table: set on a node where it matters it is found, elsewhere it is not.
TEST(VariableFault, EachRowIsFoundWhereItMattersAndNowhereElse) {
  const auto variables = dangerous_variables();
  EXPECT_GE(variables.size(), 20U);
  for (const auto& row : variables) {
    SCOPED_TRACE(row.code);
    FakeNode node("lumi-g");
    if (std::ranges::find(row.only, "nvidia") == row.only.end()) {
      node.amd_gpus(8);
    } else {
      node.nvidia_gpus(4);
    }
    node.slingshot();
    node.slurm(2, 4, 4);
    std::string value = row.values.empty() ? "1" : row.values.front();
    std::erase(value, '*');
    FakeNode plain;
    plain.set(row.name, value);
    const bool is_everywhere = row.only.empty();
    EXPECT_EQ(found(plain.findings(), row.code) != nullptr, is_everywhere);
    expect_fault(
        node, row.code, row.name + "='" + value + "': ", [&] { node.set(row.name, value); },
        [&] { node.unset(row.name); });
  }
}

TEST(VariableTable, NamesWhatItDoesNotKnow) {
  const auto message = testing::message_of(
      ErrorKind::kRecipe, [] { (void)dangerous_variables("[variable-x]\nname = \"X\"\nreasn = \"typo\"\n"); });
  EXPECT_HAS(message, "unknown key 'reasn'");
}

struct ContainerFault : ::testing::Test {
  ContainerFault() { node.set("APPTAINER_CONTAINER", "/image.sif"); }
  FakeNode node;
};

TEST_F(ContainerFault, CondaOfTheHost) {
  expect_fault(
      node, "container-conda-leak", "CONDA_PREFIX='/users/me/miniconda3'",
      [&] { node.set("CONDA_PREFIX", "/users/me/miniconda3"); }, [&] { node.unset("CONDA_PREFIX"); });
}

TEST_F(ContainerFault, PythonPathOfTheHost) {
  expect_fault(
      node, "container-python-path-leak", "'/sw/python/site-packages'",
      [&] { node.set("PYTHONPATH", "/sw/python/site-packages"); }, [&] { node.unset("PYTHONPATH"); });
}

TEST_F(ContainerFault, LibrariesOfTheHost) {
  expect_fault(
      node, "container-library-path-leak", "'/opt/rocm-5.2/lib'",
      [&] {
        node.set("LD_LIBRARY_PATH", "/.singularity.d/libs:/opt/rocm-5.2/lib");
        node.write("/.singularity.d/libs/x", "");
      },
      [&] { node.set("LD_LIBRARY_PATH", "/.singularity.d/libs"); });
}

TEST_F(ContainerFault, PackagesOfTheUserInTheHome) {
  expect_fault(
      node, "container-user-packages", "python3.10",
      [&] { node.write("/users/me/.local/lib/python3.10/site-packages/numpy/__init__.py", ""); },
      [&] { node.set("PYTHONNOUSERSITE", "1"); });
}

TEST(CheckFailure, IsAFindingAndLeavesTheOthers) {
  FakeNode node;
  node.set("OMP_NUM_THREADS", "64");
  expect_fault(
      node, "check-failed", "SLURM_GPUS_ON_NODE", [&] { node.set("SLURM_GPUS_ON_NODE", "many"); },
      [&] { node.unset("SLURM_GPUS_ON_NODE"); });
}

}  // namespace
}  // namespace lockstep
