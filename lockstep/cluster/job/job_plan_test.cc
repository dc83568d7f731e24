// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/job_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/cluster/job/batch_script.h"
#include "lockstep/cluster/job/nested_launcher.h"
#include "lockstep/cluster/profile/library.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using namespace std::chrono_literals;

const ProfileLibrary kLibrary{Environment{}};

JobRequest request(int nodes) {
  JobRequest asked;
  asked.shape.nodes = nodes;
  asked.queue.account = "abc123";
  asked.program = {.name = "train", .command = {"python", "train.py"}, .is_recipe = false};
  asked.paths = {.run_dir = "/runs/train",
                 .work_dir = "/work dir",
                 .lockstep = "/opt/bin/lockstep",
                 .profile = "x",
                 .profile_path = {}};
  return asked;
}

JobPlan planned(const JobRequest& asked, const std::string& cluster) {
  return job_plan(asked, kLibrary.named(cluster));
}

std::string refusal(const JobRequest& asked, const std::string& cluster, ErrorKind kind = ErrorKind::kEnvironment) {
  return message_of(kind, [&] { planned(asked, cluster); });
}

TEST(JobNumbers, FollowFromNodesAndDevices) {
  const auto plan = planned(request(4), "lumi-g");
  EXPECT_EQ(plan.size.devices, 8);
  EXPECT_EQ(plan.size.tasks, 8);
  EXPECT_EQ(plan.size.cores_per_task, 7);
  EXPECT_EQ(plan.size.memory, "480G");
  EXPECT_EQ(plan.size.world(), 32);
  EXPECT_EQ(plan.queue.partition, "standard-g");
  EXPECT_EQ(plan.queue.time, 1h);
}

TEST(JobNumbers, GiveFewerTasksTheCoresOfTheirDevices) {
  auto asked = request(2);
  asked.shape.tasks = 2;
  const auto plan = planned(asked, "lumi-g");
  EXPECT_EQ(plan.size.cores_per_task, 28);
  EXPECT_TRUE(std::ranges::none_of(plan.srun, [](const auto& flag) { return flag.starts_with("--cpu-bind"); }))
      << "the masks are for one task each device";
}

TEST(JobNumbers, KnowThatAPartOfANodeHasAPartOfItsMemory) {
  auto asked = request(1);
  asked.shape.devices = 2;
  asked.queue.partition = "small-g";
  EXPECT_EQ(planned(asked, "lumi-g").size.memory, "120G");
  asked.queue.partition = "booster";
  EXPECT_EQ(planned(asked, "juwels-booster").size.memory, "0") << "whole nodes: all of it";
}

TEST(JobNumbers, AreTheUsersWhereHeSaysThem) {
  auto asked = request(1);
  asked.shape = {.nodes = 1, .devices = 0, .tasks = 4, .cores_per_task = 2};
  const auto plan = planned(asked, "generic");
  EXPECT_EQ(plan.size.devices, 0);
  EXPECT_TRUE(plan.devices_flag.empty());
  EXPECT_EQ(plan.size.tasks, 4);
  EXPECT_EQ(plan.size.cores_per_task, 2);
}

TEST(JobNumbers, ShareTheCoresOfANodeWithoutDevices) {
  Profile profile = kLibrary.named("generic");
  profile.node.usable_cores = 8;
  profile.sbatch.cores = 16;  // Two threads a core.
  auto asked = request(1);
  EXPECT_EQ(job_plan(asked, profile).size.cores_per_task, 16);
  asked.shape.tasks = 4;
  EXPECT_EQ(job_plan(asked, profile).size.cores_per_task, 4);
}

TEST(JobAccount, IsTheProfilesWhereNobodyNamesOne) {
  Profile profile = kLibrary.named("lumi-g");
  profile.slurm.account = "project_1";
  auto asked = request(1);
  EXPECT_EQ(job_plan(asked, profile).queue.account, "abc123");
  asked.queue.account.clear();
  EXPECT_EQ(job_plan(asked, profile).queue.account, "project_1");
}

TEST(JobNumbers, MustGoTogether) {
  auto asked = request(1);
  asked.shape.tasks = 3;
  EXPECT_EQ(
      refusal(asked, "lumi-g", ErrorKind::kUsage),
      "8 devices of a node cannot be shared evenly by 3 tasks\n  hint: --tasks-per-node 8 gives each task one device");
  asked.shape.tasks = 0;
  EXPECT_HAS(refusal(asked, "lumi-g", ErrorKind::kUsage), "--tasks-per-node is 0, want 1 or more");
  EXPECT_HAS(refusal(request(0), "lumi-g", ErrorKind::kUsage), "--nodes is 0, want 1 or more");
}

TEST(JobNumbers, MayBeARangeOfNodes) {
  auto asked = request(8);
  asked.shape.least_nodes = 2;
  const auto plan = planned(asked, "lumi-g");
  EXPECT_TRUE(plan.size.is_range());
  EXPECT_EQ(plan.size.nodes_text(), "2-8");
  const auto script = batch_script(plan);
  EXPECT_HAS(script, "#SBATCH --nodes=2-8\n");
  EXPECT_HAS(script, "2 to 8 nodes of lumi-g, 16 to 64 tasks");
  EXPECT_HAS(script, "--nodes=\"$SLURM_JOB_NUM_NODES\" --ntasks=$((SLURM_JOB_NUM_NODES * 8))");
  asked.shape.node_step = 3;
  EXPECT_EQ(planned(asked, "lumi-g").size.nodes_text(), "2-8:3");
  asked.shape.node_step = 4;
  EXPECT_HAS(refusal(asked, "lumi-g", ErrorKind::kUsage), "2 to 8 nodes in steps of 4, want a range that rises");
  asked.shape = {.nodes = 2, .least_nodes = 4};
  EXPECT_HAS(refusal(asked, "lumi-g", ErrorKind::kUsage), "4 to 2 nodes in steps of 1");
  asked.shape = {.nodes = 4, .least_nodes = 4};
  EXPECT_HAS(batch_script(planned(asked, "lumi-g")), "#SBATCH --nodes=4\n");
}

TEST(JobNumbers, OfARangeFitTheQueueAtBothEnds) {
  auto asked = request(4);
  asked.queue.partition = "largest";
  asked.shape.least_nodes = 2;
  Profile profile = kLibrary.named("lumi-g");
  profile.partitions["largest"] = {.limits = {{.min_nodes = 4, .max_nodes = 100, .time = 24h}}};
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { job_plan(asked, profile); }), "takes at least 4 nodes");
}

TEST(JobSignal, ComesEarlierTheLongerTheJob) {
  const auto lead = [](std::chrono::seconds time) {
    auto asked = request(1);
    asked.queue.time = time;
    return planned(asked, "generic").signal_lead;
  };
  EXPECT_EQ(lead(24h), 300s);
  EXPECT_EQ(lead(30min), 180s);
  EXPECT_EQ(lead(5min), 60s) << "Slurm may send it a minute early";
  EXPECT_EQ(lead(1min), 15s) << "the controller may warn 30 s earlier, which must not come before the script begins";
}

TEST(JobSignal, IsNotAskedForARecipeWhichGoesByTheClock) {
  auto asked = request(1);
  asked.program.is_recipe = true;
  asked.queue.time = 24h;
  const auto script = batch_script(planned(asked, "generic"));
  EXPECT_EQ(script.find("--signal"), std::string::npos);
  EXPECT_HAS(script, "LOCKSTEP_JOB_END=$(date -d \"${end:-now + $((86400 - SECONDS)) seconds}\" +%s)");
}

TEST(JobVariables, OrderTheDevicesOnlyWhereAllAreOurs) {
  EXPECT_EQ(planned(request(1), "perlmutter").env.at("CUDA_VISIBLE_DEVICES"), "3,2,1,0");
  auto asked = request(1);
  asked.shape.devices = 1;
  EXPECT_FALSE(planned(asked, "perlmutter").env.contains("CUDA_VISIBLE_DEVICES"));
}

TEST(JobFlags, OfManyNodesAreForManyNodes) {
  EXPECT_EQ(planned(request(2), "frontier").sbatch, (std::vector<std::string>{"--network=disable_rdzv_get"}));
  EXPECT_TRUE(planned(request(1), "frontier").sbatch.empty());
  EXPECT_EQ(planned(request(1), "frontier").env.at("NCCL_NET"), "Socket");
}

TEST(JobLimits, NameThePartitionThatFitsAndKeepTheOneThatWasAskedFor) {
  auto asked = request(40);
  asked.queue.partition = "dev-g";
  EXPECT_HAS(refusal(asked, "lumi-g"), "partition 'dev-g' of lumi-g takes at most 32 nodes (lumi-g.toml:");
  EXPECT_HAS(refusal(asked, "lumi-g"),
             "40 are asked for\n  hint: --partition standard-g gives 40 nodes 48:00:00; or --nodes 32");
}

TEST(JobLimits, NameTheQosThatFitsAndNeverBeginAHintWithOr) {
  EXPECT_HAS(refusal(request(100), "leonardo"), "hint: --qos boost_qos_bprod gives 100 nodes 24:00:00; or --nodes 64");
  EXPECT_HAS(refusal(request(400), "leonardo"), "hint: --nodes 64");
}

TEST(JobLimits, NameTheQosThatGivesMoreTimeOrDevices) {
  auto asked = request(2);
  asked.queue.time = 48h;
  EXPECT_HAS(refusal(asked, "leonardo"),
             "hint: --qos boost_qos_lprod gives 2 nodes 96:00:00; --time 24:00:00 --chain 2");
  asked = request(1);
  asked.queue.qos = "shared";
  asked.shape.devices = 4;
  EXPECT_HAS(refusal(asked, "perlmutter"),
             "at most 2 devices, 4 are asked for\n  hint: --qos interactive gives 1 node");
}

TEST(JobBilling, IsInTheSitesOwnUnit) {
  const auto bill = [](JobRequest asked, const std::string& cluster) { return planned(asked, cluster).billing; };
  auto one = request(1);
  one.shape.devices = 1;
  // LUMI bills a module of two dies as one GPU. On a partition with shared nodes, one die costs half of that.
  EXPECT_EQ(bill(request(2), "lumi-g").per_hour, 8);
  EXPECT_EQ(bill(request(2), "lumi-g").unit, "GPU-hours");
  EXPECT_EQ(bill(one, "lumi-g").per_hour, 4) << "standard-g bills whole nodes";
  one.queue.partition = "small-g";
  EXPECT_EQ(bill(one, "lumi-g").per_hour, 0.5);
  one.queue.partition = "";
  EXPECT_EQ(bill(one, "juwels-booster").per_hour, 48);
  EXPECT_EQ(bill(one, "juwels-booster").unit, "core-hours");
  EXPECT_EQ(bill(one, "leonardo").per_hour, 8);
  EXPECT_EQ(bill(request(3), "frontier").per_hour, 3);
  EXPECT_EQ(bill(request(3), "frontier").unit, "node-hours");
}

TEST(JobNumbers, TakeAllCoresOfANodeThatNobodyElseCanHave) {
  auto asked = request(1);
  asked.shape.devices = 1;
  EXPECT_EQ(planned(asked, "frontier").size.cores_per_task, 56);
  asked.queue.partition = "small-g";
  EXPECT_EQ(planned(asked, "lumi-g").size.cores_per_task, 7);
  asked.queue.partition = "";
  asked.shape.devices = 0;
  EXPECT_EQ(planned(asked, "frontier").size.cores_per_task, 0);
}

TEST(JobLimits, GiveTimeByTheNumberOfNodes) {
  auto asked = request(4);
  asked.queue.time = 6h;
  const auto message = refusal(asked, "frontier");
  EXPECT_HAS(message, "partition 'batch' of frontier gives 4 nodes at most 02:00:00 (frontier.toml:");
  EXPECT_HAS(message,
             "06:00:00 is asked for\n  hint: --partition extended gives 4 nodes 24:00:00; 92 nodes and more get "
             "06:00:00; --time 02:00:00 --chain 3 runs it in as many jobs");
  asked.shape.nodes = 92;
  EXPECT_NO_THROW(planned(asked, "frontier"));
}

TEST(JobLimits, WantAnAccountWhereTheSiteDoes) {
  auto asked = request(1);
  asked.queue.account = "";
  EXPECT_HAS(refusal(asked, "lumi-g"), "no account is named, and lumi-g wants one (lumi-g.toml:");
  EXPECT_HAS(refusal(asked, "lumi-g"), "--account NAME (project_ and nine digits)");
  EXPECT_NO_THROW(planned(asked, "generic"));
}

TEST(JobLimits, CountTheDevicesAndCoresOfANode) {
  auto asked = request(2);
  asked.shape.devices = 16;
  EXPECT_HAS(refusal(asked, "frontier"), "a node of frontier has 8 devices (frontier.toml:");
  EXPECT_HAS(refusal(asked, "frontier"), "16 are asked for\n  hint: --nodes 4 --devices 8");
  asked = request(1);
  asked.shape.cores_per_task = 8;
  EXPECT_HAS(refusal(asked, "lumi-g"), "a node of lumi-g has 56 cores for jobs");
  EXPECT_HAS(refusal(asked, "lumi-g"), "64 are asked for: 8 tasks of 8\n  hint: --cores-per-task 7");
}

TEST(JobLimits, AreThoseOfTheQosWhereOneIsNamed) {
  auto asked = request(100);
  asked.queue.qos = "boost_qos_bprod";
  EXPECT_NO_THROW(planned(asked, "leonardo"));
  asked.queue.qos = "";
  EXPECT_HAS(refusal(asked, "leonardo"), "partition 'boost_usr_prod' of leonardo takes at most 64 nodes");
  asked.queue.qos = "boost_qos_bprd";
  EXPECT_HAS(refusal(asked, "leonardo"), "did you mean --qos boost_qos_bprod?");
}

TEST(JobLimits, ForbidChainsWhereTheSiteDoes) {
  auto asked = request(1);
  asked.queue.qos = "debug";
  asked.queue.chain = 3;
  EXPECT_HAS(refusal(asked, "frontier"), "QOS 'debug' of frontier forbids chains of jobs (frontier.toml:");
}

TEST(NestedLaunchers, AreFoundByTheirNames) {
  const auto launched = [](std::vector<std::string> command) { return nested_launcher(command)->launched; };
  using Words = std::vector<std::string>;
  EXPECT_EQ(launched({"torchrun", "--nnodes=2", "--nproc_per_node", "8", "train.py", "--lr", "3"}),
            (Words{"python", "train.py", "--lr", "3"}));
  EXPECT_EQ(launched({"/env/bin/python3", "-m", "torch.distributed.run", "--standalone", "train.py"}),
            (Words{"/env/bin/python3", "train.py"}));
  EXPECT_EQ(launched({"torchrun", "--nproc-per-node=4", "-m", "pkg.train"}), (Words{"python", "-m", "pkg.train"}));
  EXPECT_EQ(launched({"accelerate", "launch", "--multi_gpu", "train.py"}), (Words{"python", "train.py"}));
  EXPECT_EQ(launched({"mpirun", "-np", "4", "./solve"}), (Words{"./solve"}));
  EXPECT_FALSE(nested_launcher({"python", "torchrun.py"}));
  EXPECT_FALSE(nested_launcher({"accelerate", "config"}));
  EXPECT_FALSE(nested_launcher({}));
}

TEST(NestedLaunchers, AreRefusedUnderOneTaskForEachDevice) {
  auto asked = request(2);
  asked.program.command = {"torchrun", "--nproc_per_node=8", "train.py"};
  EXPECT_EQ(
      refusal(asked, "lumi-g", ErrorKind::kUsage),
      "torchrun starts ranks of its own, and would be started 8 times on each node, once for each task\n  hint: leave "
      "it out, each task is a rank already: -- python train.py; or keep a launcher, one on each node: lockstep submit "
      "--nodes 2 --tasks-per-node 1 -- torchrun --nproc_per_node=8 train.py");
  asked.shape.tasks = 1;
  EXPECT_NO_THROW(planned(asked, "lumi-g"));
}

TEST(NestedLaunchers, OfOneNodeAloneAreRefusedOverSeveral) {
  auto asked = request(2);
  asked.shape.tasks = 1;
  asked.program.command = {"deepspeed", "train.py", "--deepspeed", "ds.json"};
  EXPECT_HAS(
      refusal(asked, "lumi-g", ErrorKind::kUsage),
      "2 nodes would train as many separate models\n  hint: torchrun starts DeepSpeed programs over nodes: lockstep "
      "submit --nodes 2 --tasks-per-node 1 -- torchrun --nproc_per_node=8 train.py --deepspeed ds.json");
  asked.program.command.insert(asked.program.command.begin() + 1, "--hostfile=hosts");
  EXPECT_NO_THROW(planned(asked, "lumi-g"));
}

TEST(OwnVariables, MustBeOnes) {
  auto asked = request(1);
  asked.software.env = {"HF HOME=/x"};
  EXPECT_HAS(refusal(asked, "generic", ErrorKind::kRecipe),
             "cluster.env: 'HF HOME=/x' sets no variable, want NAME=value");
}

TEST(BatchScript, QuotesWhatAShellWouldTakeApart) {
  auto asked = request(1);
  asked.program.command = {"python", "train.py", "--note", "it's $HOME"};
  asked.software.env = {"DATA=$SCRATCH/my data"};
  asked.sbatch = {"--comment=two words"};
  const auto script = batch_script(planned(asked, "generic"));
  EXPECT_HAS(script, "#SBATCH --chdir=\"/work dir\"\n");
  EXPECT_HAS(script, "#SBATCH --comment=\"two words\"\n");
  EXPECT_HAS(script, "\"$program\" train.py --note 'it'\\''s $HOME'");
  EXPECT_HAS(script, "export DATA=\"$SCRATCH/my data\"\n");
}

TEST(BatchScript, SubmitsANextJobWhereNoneMayBeRequeued) {
  Profile profile = kLibrary.named("generic");
  profile.sbatch.requeue = false;
  auto asked = request(1);
  asked.queue.chain = 4;
  const auto script = batch_script(job_plan(asked, profile));
  EXPECT_HAS(script, "#SBATCH --no-requeue\n");
  EXPECT_HAS(script, "link=${1:-1}\n");
  EXPECT_HAS(script, "  if [ ! -e \"$LOCKSTEP_RUN_DIR/stop-$SLURM_JOB_ID\" ] && [ \"$link\" -lt 4 ]; then\n");
  EXPECT_HAS(script,
             "  sbatch --parsable --dependency=afterany:\"$SLURM_JOB_ID\" /runs/train/job.sh $((link + 1)) > "
             "\"$LOCKSTEP_RUN_DIR/job.next\".new &&\n");
  EXPECT_HAS(script, "      requeue || echo \"lockstep: error: the run is not in the queue again");
}

TEST(BatchScript, TellsTheRanksBeforeTheTimeIsUp) {
  auto asked = request(1);
  asked.queue.time = 10min;
  asked.queue.signal = LimitSignal{.name = "USR2", .before = 90s};
  const auto script = batch_script(planned(asked, "generic"));
  EXPECT_HAS(script, "#SBATCH --signal=B:USR1@90\n");
  EXPECT_HAS(script, "trap 'warned=1; again scancel --signal=USR2 \"$SLURM_JOB_ID\" || true' USR1\n");
  asked.queue.signal->before = 600s;
  EXPECT_HAS(refusal(asked, "generic", ErrorKind::kUsage),
             "--signal: 600 s before the end of a job of 600 s is before its begin");
}

TEST(BatchScript, OfARunThatMayNotStartAgainPutsNothingBack) {
  auto asked = request(1);
  asked.queue.goes_on = false;
  const auto script = batch_script(planned(asked, "generic"));
  EXPECT_HAS(script, "#SBATCH --no-requeue\n");
  EXPECT_EQ(script.find("next_job"), std::string::npos);
  EXPECT_EQ(script.find("scontrol"), std::string::npos);
}

TEST(BatchScript, GivesEachOfAFewRanksALogAndLabelsTheLinesOfMany) {
  const auto few = batch_script(planned(request(32), "lumi-g"));
  EXPECT_HAS(few, "exec --cluster x --rank-logs --again ");
  EXPECT_EQ(few.find("--label"), std::string::npos);
  const auto many = batch_script(planned(request(33), "lumi-g"));
  EXPECT_HAS(many, " --label ");
  EXPECT_EQ(many.find("--rank-logs"), std::string::npos);
}

TEST(BatchScript, LetsTheRanksOfARecipeEndTogether) {
  auto asked = request(2);
  asked.program.is_recipe = true;
  const auto script = batch_script(planned(asked, "lumi-g"));
  EXPECT_HAS(script, "--kill-on-bad-exit=0 --wait=300");
  EXPECT_HAS(batch_script(planned(request(2), "lumi-g")), "--kill-on-bad-exit=1");
}

TEST(BatchScript, EndsTheSetUpWithAWordThatIsNoneOfItsLines) {
  auto asked = request(1);
  asked.software.setup = {"SETUP"};
  EXPECT_HAS(batch_script(planned(asked, "generic")), "setup=$(cat << 'SETUP_'\nset -e\nSETUP\nexec \"$@\"\nSETUP_\n)");
}

}  // namespace
}  // namespace lockstep
