// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/variables.h"

#include <gtest/gtest.h>

#include "tests/support/fake_node.h"
#include "tests/support/node_faults.h"

namespace lockstep {
namespace {

using testing::FakeNode;
using testing::Fault;
using testing::found;
using testing::no_variable;
using testing::variable;

/// Sets each variable of the table on a node. It must be found on a node where it does harm, and on no other.
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
    expect_fault(node,
                 {.code = row.code, .fact = row.name + "='" + value + "': ", .broken = variable(row.name, value)});
  }
}

// `srun --export=ALL` leaves the variable SLURM_EXPORT_ENV as it is, but gives the tasks the script's variables.
TEST(VariableFault, NothingIsSaidOfTasksThatHaveTheScriptsVariables) {
  FakeNode node("frontier");
  node.slurm(2, 4, 4);
  node.set("SLURM_STEP_ID", "0");
  node.set("SLURM_EXPORT_ENV", "NONE");
  EXPECT_NE(found(node.findings(), "variable-no-export"), nullptr);
  node.set("PATH", "/usr/bin");
  EXPECT_EQ(found(node.findings(), "variable-no-export"), nullptr);
}

TEST(VariableTable, NamesWhatItDoesNotKnow) {
  const auto message = testing::message_of(
      ErrorKind::kRecipe, [] { (void)dangerous_variables("[variable-x]\nname = \"X\"\nreasn = \"typo\"\n"); });
  EXPECT_HAS(message, "unknown key 'reasn'");
}

struct ContainerNode : FakeNode {
  ContainerNode() { set("APPTAINER_CONTAINER", "/image.sif"); }
};

const std::vector<Fault> kInContainer = {
    {"CondaOfTheHost", "container-conda-leak", "CONDA_PREFIX='/users/me/miniconda3'",
     variable("CONDA_PREFIX", "/users/me/miniconda3")},
    {"PythonPathOfTheHost", "container-python-path-leak", "'/sw/python/site-packages'",
     variable("PYTHONPATH", "/sw/python/site-packages")},
    {"LibrariesOfTheHost", "container-library-path-leak", "'/opt/rocm-5.2/lib'",
     [](FakeNode& node) {
       node.set("LD_LIBRARY_PATH", "/.singularity.d/libs:/opt/rocm-5.2/lib");
       node.write("/.singularity.d/libs/x", "");
     },
     variable("LD_LIBRARY_PATH", "/.singularity.d/libs")},
    {"PackagesOfTheUserInTheHome", "container-user-packages", "python3.10",
     testing::file("/users/me/.local/lib/python3.10/site-packages/numpy/__init__.py", ""),
     variable("PYTHONNOUSERSITE", "1")},
};
FAULT_TESTS(ContainerFault, ContainerNode, kInContainer);

TEST(CheckFailure, IsAFindingAndLeavesTheOthers) {
  FakeNode node;
  node.set("OMP_NUM_THREADS", "64");
  expect_fault(node, {.code = "check-failed",
                      .fact = "SLURM_GPUS_ON_NODE",
                      .broken = variable("SLURM_GPUS_ON_NODE", "many"),
                      .mended = no_variable("SLURM_GPUS_ON_NODE")});
}

}  // namespace
}  // namespace lockstep
