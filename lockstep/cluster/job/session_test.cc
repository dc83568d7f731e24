// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/session.h"

#include <gtest/gtest.h>

#include "lockstep/base/shell_text.h"
#include "lockstep/cluster/profile/library.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

JobPlan planned(const std::string& cluster, std::vector<std::string> command) {
  JobRequest asked;
  asked.queue.account = "abc123";
  asked.program = {.name = "shell", .command = std::move(command)};
  asked.paths = {.run_dir = "/runs/shell",
                 .work_dir = "/work",
                 .lockstep = "/opt/bin/lockstep",
                 .profile = cluster,
                 .profile_path = {},
                 .host = "login1"};
  return job_plan(asked, ProfileLibrary(Environment{}).named(cluster));
}

TEST(Session, AsksForWhatABatchJobWouldAndSharesItWithStepsFromWithin) {
  const auto command = shell_quoted(session_command(planned("lumi-g", {})));
  EXPECT_HAS(command, "salloc --job-name=shell --account=abc123 --partition=standard-g --time=01:00:00 --nodes=1");
  EXPECT_HAS(command, "--gpus-per-node=8 --ntasks-per-node=8 --cpus-per-task=7 --mem=480G --chdir=/work");
  EXPECT_HAS(command,
             "srun --pty --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpu-bind=none --preserve-env "
             "--cpus-per-task=56");
  EXPECT_HAS(command, "bash -l /runs/shell/session.sh");
}

TEST(Session, GetsNothingOfTheSubmittingShellWhereTheSiteWantsThat) {
  EXPECT_HAS(shell_quoted(session_command(planned("frontier", {}))), " --export=NONE bash -l");
  EXPECT_HAS(session_script(planned("frontier", {})), "\nexport SLURM_EXPORT_ENV=ALL\n");
}

TEST(Session, OfNoProgramIsAShellWithoutARank) {
  const auto script = session_script(planned("generic", {}));
  EXPECT_HAS(script, "\nbash -i\n");
  EXPECT_EQ(script.find("lockstep exec --cluster"), std::string::npos);
  EXPECT_HAS(script, "ssh -L $port:$(hostname):$port login1");
}

TEST(Session, LetsJupyterListenWhereTheTunnelEnds) {
  const auto script = session_script(planned("lumi-g", {"jupyter", "lab"}));
  EXPECT_HAS(script, "exec --cluster lumi-g -- jupyter lab --no-browser --ip=\"$(hostname)\" --port=\"$port\"\n");
  EXPECT_HAS(script, "ssh -L $port:$(hostname):$port lumi.csc.fi");
}

TEST(Session, LeavesFlagsThatAreGiven) {
  const auto server = server_of({"python", "-m", "jupyter", "lab", "--port", "8890", "--ip=0.0.0.0"});
  ASSERT_TRUE(server);
  EXPECT_EQ(server->port, "8890");
  EXPECT_EQ(server->flags, std::vector<std::string>{"--no-browser"});
  EXPECT_FALSE(server_of({"python", "train.py"}));
  EXPECT_FALSE(server_of({}));
}

}  // namespace
}  // namespace lockstep
