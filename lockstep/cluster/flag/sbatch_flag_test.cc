// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/flag/sbatch_flag.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(SbatchFlag, ThatHasAnOptionOfOursIsRefusedInEverySpelling) {
  const std::pair<const char*, const char*> refused[] = {
      {"-N 3", "--nodes"},
      {"-N3", "--nodes"},
      {"--nodes=3", "--nodes"},
      {"--nodes 3", "--nodes"},
      {"--nod=3", "--nodes"},
      {"-t3:00:00", "--time"},
      {"--time 3:00:00", "--time"},
      {"-A abc", "--account"},
      {"-pdebug", "--partition"},
      {"-q", "--qos"},
      {"-n8", "--tasks-per-node"},
      {"--ntasks-per-gpu=1", "--tasks-per-node"},
      {"--gres=gpu:2", "--devices"},
      {"--gres gpu", "--devices"},
      {"--gres=nvme:1,gpu:a100:4", "--devices"},
      {"--gpus=4", "--devices"},
      {"-G4", "--devices"},
      {"--gpus-per-task=1", "--devices"},
      {"--gpus-per-socket=1", "--devices"},
      {"-c 8", "--cores-per-task"},
      {"--job-name=x", "--name"},
      {"--output=x.out", "--run-dir"},
      {"-e x.err", "--run-dir"},
      {"--array=0-9", "--sweep"},
      {"-a0-9", "--sweep"},
      {"--signal=B:USR1@90", "--signal NAME@S"},
      {"--sig USR1@90", "--signal NAME@S"},
      {"--requeue", "--requeue yes"},
      {"--no-requeue", "--requeue no"},
      {"--no-req", "--requeue no"},
      {"--chdir=/x", "cd there"},
      {"-D/x", "cd there"},
      {"--clusters=X", "export SLURM_CLUSTERS=X"},
      {"--clusters X", "export SLURM_CLUSTERS=X"},
      {"--cluster=X", "export SLURM_CLUSTERS=X"},
      {"-M X", "export SLURM_CLUSTERS=X"},
      {"-MX", "export SLURM_CLUSTERS=X"},
      {"--wrap=hostname", "after two dashes"},
  };
  for (const auto& each : refused) {
    EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { check_sbatch_flag(each.first); }), each.second);
  }
}

TEST(SbatchFlag, ForTheLogIsToldWhereTheLogLies) {
  EXPECT_EQ(
      message_of(ErrorKind::kUsage, [] { check_sbatch_flag("--output=x"); }),
      "--sbatch=--output=x: follow, report and monitor look for the log in the run folder, at logs/job.log\n  hint: "
      "--run-dir DIR chooses the run folder");
}

TEST(SbatchFlag, OfAnyOtherKindIsTaken) {
  for (const char* flag :
       {"--exclusive", "--mem=10G", "--nodelist=n3", "-w n3", "-x n3", "--gres=nvme:1", "--mail-type END",
        "--begin=now+1hour", "-H", "--time-min=1:00:00", "--no-kill", "-d afterok:4", "--cluster-constraint=big"}) {
    EXPECT_NO_THROW(check_sbatch_flag(flag)) << flag;
  }
}

}  // namespace
}  // namespace lockstep
