// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/draft.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/base/file.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/survey/draft_text.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::source_root;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

/// Answers that tests/golden/slurm_survey/record.py recorded. There are two nodes without devices and two with four
/// a100. Each has 8 cores with two threads.
MachineAnswers recorded() {
  const auto text = [](const char* name) { return text_of_file(source_root() / "tests/golden/slurm_survey" / name); };
  return {.host = "login1",
          .date = "2026-11-23",
          .config = text("config.txt"),
          .partitions = text("partitions.txt"),
          .nodes = text("nodes.txt"),
          .user = {.name = "me", .groups = {"users"}}};
}

/// Answers of a newer Slurm, with the fields of scontrol(1) 25.05.
MachineAnswers newer() {
  MachineAnswers answers{.host = "login1", .date = "2026-11-23"};
  answers.config =
      "AccountingStorageEnforce = associations,limits,qos\nAccountingStorageType = accounting_storage/slurmdbd\n"
      "ClusterName = Big\nGresTypes = gpu,shard\nSelectType = select/cons_tres\n"
      "SelectTypeParameters = CR_CORE_MEMORY\nSLURM_VERSION = 25.05.3\n\nCgroup Support Configuration:\n"
      "ConstrainDevices        = yes\n";
  answers.partitions =
      "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
      "DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=3-00:00:00 MinNodes=0 MaxCPUsPerNode=UNLIMITED "
      "MaxCPUsPerSocket=UNLIMITED Nodes=g[1-3] OverSubscribe=NO State=UP TotalCPUs=384 TotalNodes=3 "
      "SelectTypeParameters=NONE DefMemPerCPU=1024 MaxMemPerCPU=4000 TRES=cpu=384,mem=1500000M,node=3,gres/gpu=12 "
      "TRESBillingWeights=CPU=0.25,Mem=0.1G,GRES/gpu=16\n";
  answers.nodes =
      "NodeName=g1 Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUEfctv=124 CPUTot=128 CoreSpecCount=2 "
      "Gres=gpu:h100:4(S:0-1),shard:h100:16(S:0-1) RealMemory=515000 MemSpecLimit=15000 Sockets=2 State=IDLE "
      "ThreadsPerCore=2 Partitions=gpu Comment=new Extra=x InstanceId= ResumeAfterTime=None\n"
      "NodeName=g2 CoresPerSocket=32 CPUEfctv=124 CPUTot=128 Gres=gpu:h100:4 RealMemory=515000 MemSpecLimit=15000 "
      "Sockets=2 State=MIXED+PLANNED ThreadsPerCore=2 Partitions=gpu\n"
      "NodeName=g3 CoresPerSocket=32 CPUEfctv=124 CPUTot=128 Gres=gpu:a30:4 RealMemory=515000 Sockets=2 State=IDLE "
      "ThreadsPerCore=2 Partitions=gpu\n";
  answers.associations = "big|p1|normal\nbig|p2|normal\n";
  answers.user = {.name = "me", .groups = {}};
  return answers;
}

std::string gap(const ProfileDraft& draft, std::string_view key) {
  const auto found = std::ranges::find(draft.gaps, key, &DraftGap::key);
  return found == draft.gaps.end() ? std::string() : found->how;
}

TEST(ProfileDraft, TakesNoPartitionForTestsWhereNoneIsTheDefault) {
  auto answers = newer();
  const auto main = answers.partitions;
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = main;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  answers.partitions = with("Default=YES", "Default=NO");
  const std::string other = with("PartitionName=gpu", "PartitionName=debug");
  auto small = other;
  small.replace(small.find("MaxNodes=UNLIMITED"), 18, "MaxNodes=1");
  auto brief = other;
  brief.replace(brief.find("MaxTime=3-00"), 12, "MaxTime=0-01");
  for (auto at = answers.nodes.find("Partitions=gpu"); at != std::string::npos;
       at = answers.nodes.find("Partitions=gpu", at + 14)) {
    answers.nodes.replace(at, 14, "Partitions=debug,gpu");
  }
  for (const auto& debug : {small, brief}) {
    auto said = answers;
    auto text = debug;
    text.replace(text.find("Default=YES"), 11, "Default=NO");
    said.partitions = text + answers.partitions;
    const auto draft = drafted(said, "");
    EXPECT_EQ(draft.profile.slurm.partition, "gpu") << text;
    EXPECT_EQ(draft.why_partition, "its jobs may have the most nodes with devices; none is the default");
  }
}

TEST(ProfileDraft, TakesTheDevicesOfARecordedMachine) {
  const auto draft = drafted(recorded(), "");
  const auto& profile = draft.profile;
  EXPECT_EQ(profile.detect.slurm_cluster, "recorded");
  EXPECT_EQ(profile.slurm.partition, "a100");
  EXPECT_EQ(draft.why_partition, "the default partition, 'cpu', has no devices");
  EXPECT_EQ(profile.devices.count, 4);
  EXPECT_EQ(profile.devices.backend, "cuda");
  EXPECT_EQ(profile.about.unverified, (std::vector<std::string>{"devices.backend"}));
  EXPECT_EQ(profile.node.cores, 8);
  EXPECT_EQ(profile.sbatch.cores_per_device, 4) << "hardware threads, as Slurm counts";
  EXPECT_TRUE(profile.sbatch.memory_per_device.empty()) << "CR_CORE shares no memory out";
  EXPECT_TRUE(profile.partitions.at("a100").whole_node);
  EXPECT_EQ(profile.partitions.at("a100").limits.front().time, 24h);
  EXPECT_TRUE(profile.partitions.at("closed").on_request) << "AllowAccounts=staff";
  EXPECT_EQ(draft.sources.at("devices.count"), "scontrol show node: Gres=gpu:a100:4 of n3, n4");
  EXPECT_EQ(gap(draft, "slurm.billing"),
            "node, device or core: this Slurm keeps no accounts; ask the site if it bills");
  EXPECT_FALSE(gap(draft, "network.interfaces").empty()) << "a login node is no compute node";
}

TEST(ProfileDraft, DoubtsWhatOnlyTheLoginNodeTells) {
  auto answers = recorded();
  answers.network = "InfiniBand";
  answers.config += "\nTaskPlugin = task/none\n";
  EXPECT_EQ(drafted(answers, "").profile.network.kind, "InfiniBand");
  EXPECT_EQ(drafted(answers, "").profile.about.unverified,
            (std::vector<std::string>{"devices.backend", "network.kind"}));
  EXPECT_TRUE(drafted(answers, "").profile.about.notes.empty()) << "of a setting that comes twice the first counts";
  answers.config = "TaskPlugin = task/none\n" + answers.config;
  EXPECT_HAS(drafted(answers, "").profile.about.notes.at(0), "TaskPlugin is task/none");
}

TEST(ProfileDraft, TakesAPartitionThatIsNamed) {
  const auto draft = drafted(recorded(), "cpu");
  EXPECT_EQ(draft.profile.devices.count, 0);
  EXPECT_EQ(draft.profile.sbatch.cores, 16);
  EXPECT_EQ(draft.profile.slurm.time, 30min);
  EXPECT_EQ(message_of(ErrorKind::kEnvironment, [] { drafted(recorded(), "a10"); }),
            "there is no partition 'a10' with nodes, want one of cpu, a100, closed\n"
            "  hint: did you mean --partition a100?");
}

TEST(ProfileDraft, SharesOutWhatIsNotKeptForTheSystem) {
  const auto draft = drafted(newer(), "");
  const auto& sbatch = draft.profile.sbatch;
  EXPECT_EQ(sbatch.cores_per_device, 30) << "124 CPUs for four, whole cores of two threads";
  EXPECT_EQ(sbatch.memory_per_device, "120000M") << "MaxMemPerCPU times 30: less than a quarter of the node's";
  EXPECT_EQ(sbatch.devices, "--gpus-per-node=h100:{devices}") << "the partition has another type, too";
  EXPECT_EQ(draft.profile.node.usable_cores, 62);
  EXPECT_EQ(draft.profile.slurm.billing, "device");
  EXPECT_EQ(draft.profile.about.notes, (std::vector<std::string>{"1 node of gpu are another kind: gpu:a30:4"}));
  EXPECT_EQ(draft.nodes, 2);
}

TEST(ProfileDraft, LeavesTheAccountToThePersonWhereThereAreSeveral) {
  auto answers = newer();
  const auto draft = drafted(answers, "");
  EXPECT_TRUE(draft.profile.slurm.account.empty());
  EXPECT_TRUE(draft.profile.slurm.account_required);
  EXPECT_EQ(gap(draft, "slurm.account"), "the one to charge, of p1, p2");
  answers.user_record = "p2\n";
  EXPECT_EQ(drafted(answers, "").profile.slurm.account, "p2");
}

TEST(ProfileDraft, AsksOlderSlurmForDevicesAsGres) {
  auto answers = newer();
  answers.config = "ClusterName = old\nSelectType = select/cons_res\n";
  EXPECT_EQ(drafted(answers, "").profile.sbatch.devices, "--gres=gpu:h100:{devices}");
}

TEST(ProfileDraft, RefusesAMachineWithoutAnOpenPartition) {
  auto answers = newer();
  answers.partitions = "PartitionName=gpu AllowGroups=staff MaxTime=UNLIMITED State=UP TotalNodes=3\n";
  EXPECT_EQ(message_of(ErrorKind::kEnvironment, [&] { drafted(answers, ""); }),
            "no partition with nodes is open to 'me': gpu (AllowGroups=staff)\n"
            "  hint: --partition NAME takes one all the same");
}

TEST(ProfileDraft, TakesFromAComputeNodeWhatOnlyThatCanTell) {
  auto answers = newer();
  answers.node = NodeView{.host = "g1", .cpu_name = "EPYC", .cpus = 128, .numa_domains = 4};
  for (const int numa : {3, 1, 0, 2}) answers.node->devices.push_back({.is_amd = true, .pci = "x", .numa = numa});
  answers.node->interfaces = {{"eth0", "10.0.0.1", 25000}, {"hsn0", "10.1.0.1", 200000}, {"hsn1", "10.1.0.2", 200000}};
  answers.node->has_cxi = true;
  answers.node->folders = {{"/tmp", "tmpfs", true}};
  const auto draft = drafted(answers, "");
  const auto& profile = draft.profile;
  EXPECT_EQ(profile.devices.backend, "rocm") << "the drivers know better than a name";
  EXPECT_TRUE(profile.about.unverified.empty());
  EXPECT_EQ(profile.devices.numa, (std::vector<std::int64_t>{3, 1, 0, 2}));
  EXPECT_EQ(profile.network.interfaces, (std::vector<std::string>{"hsn0,hsn1", "eth0"}));
  EXPECT_EQ(profile.network.kind, "Slingshot");
  EXPECT_EQ(profile.network.node_gbs, 50);
  EXPECT_TRUE(profile.storage.node_local_is_memory);
  EXPECT_FALSE(profile.storage.internet);
}

TEST(ProfileDraft, IsWrittenAsAProfileThatReadsBackAndHasNoFaults) {
  const TemporaryFolder folder;
  auto answers = newer();
  answers.partitions += "PartitionName=odd.name Nodes=g1 MaxTime=01:00:00 State=UP TotalNodes=1\n";
  const auto draft = drafted(answers, "");
  const auto toml = to_toml(draft, "big");
  EXPECT_HAS(toml, "[partition.\"odd.name\"]\n");
  EXPECT_HAS(toml, "count = 4  # scontrol show node: Gres=gpu:h100:4(S:0-1),shard:h100:16(S:0-1) of g1, g2\n");
  EXPECT_HAS(toml, "# not known: devices.numa: the NUMA domain of each device: `lockstep profile new --live`");
  const auto file = folder.path() / "big.toml";
  write_whole(file, toml);
  const auto profile = ProfileLibrary(Environment{}).named(file.string());
  EXPECT_TRUE(checked(profile).faults.empty());
  EXPECT_EQ(profile.sbatch.memory_per_device, "120000M");
  EXPECT_EQ(profile.partitions.at("odd.name").limits.front().time, 1h);
  EXPECT_EQ(profile.sbatch.signal_lead, 300s) << "the rest is generic's";
}

TEST(NodeView, TravelsAsALineBehindWhatAPrologSays) {
  NodeView view{.host = "g1", .cpus = 8, .memory_mib = 1000};
  view.devices.push_back({.is_amd = false, .pci = "0000:c1:00.0", .numa = 1});
  view.folders.push_back({.path = "/tmp", .type = "xfs", .may_write = true});
  const auto text = "Welcome to g1\n{}\n" + to_json(view).dump() + "\n";
  EXPECT_EQ(to_json(parsed_node_view(text)), to_json(view));
  EXPECT_HAS(message_of(ErrorKind::kData, [] { parsed_node_view("Welcome\n"); }), "a compute node sent 'Welcome");
}

}  // namespace
}  // namespace lockstep
