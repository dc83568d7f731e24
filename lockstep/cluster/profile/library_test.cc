// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/profile/schema.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

const ProfileLibrary kBuiltin{Environment{}};

TEST(BuiltinProfiles, AreTheSevenSystems) {
  EXPECT_EQ(kBuiltin.names(), (std::vector<std::string>{"generic", "crukci-rocm", "frontier", "juwels-booster",
                                                        "leonardo", "lumi-g", "perlmutter"}));
}

TEST(BuiltinProfiles, NameSourcesAndADateAndAgreeWithThemselves) {
  for (const auto& name : kBuiltin.names()) {
    const Profile profile = kBuiltin.named(name);
    const auto found = checked(profile);
    EXPECT_TRUE(found.faults.empty()) << name << ": " << joined(found.faults, "; ");
    EXPECT_FALSE(profile.about.description.empty()) << name;
  }
}

TEST(BuiltinProfiles, StandOnTheGenericOne) {
  const Profile lumi = kBuiltin.named("lumi-g");
  EXPECT_EQ(lumi.sbatch.signal_lead, 300s);
  EXPECT_EQ(lumi.origin("sbatch.signal_lead").substr(0, 13), "generic.toml:");
  EXPECT_EQ(lumi.origin("devices.count").substr(0, 12), "lumi-g.toml:");
  EXPECT_EQ(lumi.origin("network.host_suffix"), "lumi-g");
  EXPECT_NE(lumi.about.description, kBuiltin.named("generic").about.description);
}

TEST(BuiltinProfiles, HoldWhatTheSystemsDocument) {
  const Profile frontier = kBuiltin.named("frontier");
  ASSERT_EQ(frontier.partitions.at("batch").limits.size(), 3U);
  EXPECT_EQ(frontier.partitions.at("batch").limits[1].min_nodes, 92);
  EXPECT_EQ(frontier.partitions.at("batch").limits[1].max_nodes, 183);
  EXPECT_EQ(frontier.partitions.at("batch").limits[1].time, 6h);
  EXPECT_EQ(frontier.partitions.at("extended").limits[0].time, 24h);
  EXPECT_EQ(frontier.devices.visible, "all");
  EXPECT_EQ(kBuiltin.named("juwels-booster").network.host_suffix, "i");
  EXPECT_EQ(kBuiltin.named("perlmutter").devices.numa, (std::vector<std::int64_t>{3, 2, 1, 0}));
  EXPECT_EQ(kBuiltin.named("crukci-rocm").partitions.at("rocm").limits[0].time, 0s);
}

TEST(BuiltinProfiles, PutEachMaskOnTheCoresOfItsDomainAndNoneOnThoseOfAnother) {
  for (const auto& name : {"frontier", "lumi-g", "juwels-booster", "perlmutter"}) {
    const Profile profile = kBuiltin.named(name);
    std::uint64_t taken = 0;
    for (std::size_t i = 0; i < profile.devices.cpu_masks.size(); ++i) {
      const auto mask = std::stoull(profile.devices.cpu_masks[i], nullptr, 16);
      const auto per_domain = profile.node.cores / profile.node.numa_domains;
      bool is_near = false;
      for (int core = 0; core < 64; ++core) {
        if ((mask >> core & 1U) == 0) continue;
        const auto domain = core / per_domain;
        is_near = is_near || domain == profile.devices.numa[i];
        // On JUWELS each device has two NUMA domains: its own, and the next one, to which no other device is near.
        EXPECT_EQ(domain / 2, profile.devices.numa[i] / 2) << name << " device " << i;
      }
      EXPECT_TRUE(is_near) << name << " device " << i;
      EXPECT_GE(std::popcount(mask), profile.sbatch.cores_per_device / (name == std::string("perlmutter") ? 2 : 1));
      EXPECT_EQ(mask & taken, 0U) << name << " device " << i;
      taken |= mask;
      for (const auto core : profile.node.reserved_cores) EXPECT_EQ(mask >> core & 1U, 0U) << name;
    }
  }
}

TEST(ProfileEnvironment, IsThatOfOneNodeOrOfMany) {
  const Profile frontier = kBuiltin.named("frontier");
  EXPECT_EQ(env_for(frontier, 1).at("NCCL_NET"), "Socket");
  EXPECT_EQ(env_for(frontier, 2).at("NCCL_NET"), "OFI");
  EXPECT_EQ(env_for(frontier, 2).at("NCCL_SOCKET_IFNAME"), "hsn0,hsn1,hsn2,hsn3");
}

TEST(ProfileDetection, GoesByVariablesThenFilesThenHostNames) {
  const auto name = [](const HostFacts& here) { return kBuiltin.detected(here).name; };
  EXPECT_EQ(name({.env = {{"LMOD_SYSTEM_NAME", "frontier"}}, .host = "batch1"}), "frontier");
  EXPECT_EQ(name({.env = {{"LUMI_STACK_NAME", "LUMI"}}, .host = "uan01"}), "lumi-g");
  EXPECT_EQ(name({.env = {{"NERSC_HOST", "perlmutter"}}, .host = "login01"}), "perlmutter");
  EXPECT_EQ(name({.env = {{"SYSTEMNAME", "juwels"}}, .host = "jwlogin05"}), "generic");
  EXPECT_EQ(name({.env = {}, .host = "frontier01234"}), "frontier");
  EXPECT_EQ(name({.env = {}, .host = "jwb0021.juwels"}), "juwels-booster");
  EXPECT_EQ(name({.env = {}, .host = "lrdn0042.leonardo.local"}), "leonardo");
  EXPECT_EQ(name({.env = {}, .host = "nid001234"}), "generic") << "a name that many machines have";
  // A variable takes precedence over a host's name.
  EXPECT_EQ(name({.env = {{"SYSTEMNAME", "juwelsbooster"}}, .host = "frontier01234"}), "juwels-booster");
}

TEST(ProfileDetection, LooksForFilesUnderItsRoot) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "etc/FZJ");
  write_whole(folder.path() / "etc/FZJ/systemname", "juwelsbooster\n");
  EXPECT_EQ(kBuiltin.detected({.env = {}, .host = "x", .root = folder.path()}).name, "juwels-booster");
  std::filesystem::remove_all(folder.path() / "etc");
  std::filesystem::create_directories(folder.path() / "mnt/scratchc");
  EXPECT_EQ(kBuiltin.detected({.env = {}, .host = "x", .root = folder.path()}).name, "crukci-rocm");
}

TEST(ProfileDetection, RefusesToGuessBetweenTwo) {
  const Environment env{{"LUMI_STACK_NAME", "LUMI"}, {"NERSC_HOST", "perlmutter"}};
  EXPECT_EQ(message_of(ErrorKind::kUsage, [&] { kBuiltin.detected({.env = env, .host = "nid001"}); }),
            "this host, 'nid001', looks like lumi-g and like perlmutter\n  hint: say which: --cluster lumi-g");
}

TEST(ProfileDetection, GoesBySlurmsNameAndAsksOnlyWhereAProfileWantsIt) {
  const TemporaryFolder config;
  std::filesystem::create_directories(config.path() / "lockstep/profiles");
  const Environment env{{"XDG_CONFIG_HOME", config.path().string()}};
  int asked = 0;
  const HostFacts here{.env = env, .host = "x", .root = config.path(), .slurm_cluster = [&] {
                         ++asked;
                         return std::string("ours");
                       }};
  EXPECT_EQ(ProfileLibrary(env).detected(here).name, "generic");
  EXPECT_EQ(asked, 0);
  write_whole(config.path() / "lockstep/profiles/mine.toml", "[detect]\nslurm_cluster = \"ours\"\n");
  EXPECT_EQ(ProfileLibrary(env).detected(here).name, "mine");
  EXPECT_GT(asked, 0);
}

TEST(ProfileDetection, TakesTheUsersOwnOfTwoThatAreAsLikely) {
  const TemporaryFolder home;
  std::filesystem::create_directories(home.path() / ".config/lockstep/profiles");
  write_whole(home.path() / ".config/lockstep/profiles/mine.toml", "[detect]\nslurm_cluster = \"lumi\"\n");
  const Environment env{{"HOME", home.path().string()}, {"SLURM_CLUSTER_NAME", "lumi"}};
  const HostFacts here{.env = env, .host = "uan01", .root = home.path(), .slurm_cluster = [] { return "lumi"; }};
  EXPECT_EQ(kBuiltin.detected(here).name, "lumi-g");
  EXPECT_EQ(ProfileLibrary(env).detected(here).name, "mine");
  write_whole(home.path() / ".config/lockstep/profiles/other.toml", "[detect]\nslurm_cluster = \"lumi\"\n");
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { ProfileLibrary(env).detected(here); }),
             "this host, 'uan01', looks like mine and like other");
}

TEST(OwnProfiles, OverrideSingleKeysAndSayWhere) {
  const TemporaryFolder folder;
  write_whole(folder.path() / "lumi-g.toml", "[slurm]\npartition = \"small-g\"\n[env]\nNCCL_DEBUG = \"INFO\"\n");
  const ProfileLibrary library(Environment{{"LOCKSTEP_PROFILE_PATH", folder.path().string()}});
  const Profile lumi = library.named("lumi-g");
  EXPECT_EQ(lumi.slurm.partition, "small-g");
  EXPECT_EQ(lumi.origin("slurm.partition"), (folder.path() / "lumi-g.toml:2").string());
  EXPECT_EQ(lumi.env.at("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(lumi.env.at("NCCL_NET_GDR_LEVEL"), "PHB");
}

TEST(OwnProfiles, GoBeforeLaterOnesOfThePath) {
  const TemporaryFolder mine;
  const TemporaryFolder site;
  write_whole(mine.path() / "lumi-g.toml", "[slurm]\npartition = \"dev-g\"\n");
  write_whole(site.path() / "lumi-g.toml", "[slurm]\npartition = \"small-g\"\nqos = \"normal\"\n");
  const ProfileLibrary library(
      Environment{{"LOCKSTEP_PROFILE_PATH", (mine.path() / "lumi-g.toml").string() + ":" + site.path().string()}});
  EXPECT_EQ(library.named("lumi-g").slurm.partition, "dev-g");
  EXPECT_EQ(library.named("lumi-g").slurm.qos, "normal");
}

TEST(OwnProfiles, MayBeNewOnesThatStandOnAnother) {
  const TemporaryFolder folder;
  write_whole(folder.path() / "mine.toml", "base = \"frontier\"\n[slurm]\npartition = \"extended\"\n");
  const ProfileLibrary library(Environment{{"LOCKSTEP_PROFILE_PATH", folder.path().string()}});
  EXPECT_EQ(library.named("mine").devices.count, 8);
  EXPECT_TRUE(library.named("mine").detect.hosts.empty()) << "only its own names may recognise it";
  EXPECT_EQ(kBuiltin.named((folder.path() / "mine.toml").string()).slurm.partition, "extended");
}

TEST(OwnProfiles, AreRefusedWithTheirLine) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "mine.toml").string();
  const auto refusal = [&](const std::string& toml) {
    write_whole(file, toml);
    return message_of(ErrorKind::kRecipe, [&] { kBuiltin.named(file); });
  };
  EXPECT_HAS(refusal("[slurm]\npartitions = \"x\"\n"),
             file + ":2: unknown key 'slurm.partitions'\n  hint: did you mean slurm.partition?");
  EXPECT_HAS(refusal("[partition.big]\nlimit = [\"1-2\"]\n"), "did you mean partition.*.limits?");
  EXPECT_HAS(refusal("[node]\ncores = \"many\"\n"), file + ":2: node.cores = 'many' (text), want a whole number");
  EXPECT_HAS(refusal("[partition.big]\nlimits = [\"9-2 01:00:00\"]\n"), "want a list of \"NODES TIME\"");
  EXPECT_HAS(refusal("[devices]\nbackend = \"rocn\"\n"), "want one of cuda, rocm\n  hint: did you mean 'rocm'?");
  EXPECT_HAS(refusal("[detect]\nhosts = ['^a(']\n"), "'^a(' is not a regular expression");
  EXPECT_HAS(refusal("base = \"frontir\"\n"), "did you mean 'frontier'?");
  EXPECT_HAS(refusal("base = \"mine\"\n"), "profile 'mine' is its own base");
  EXPECT_HAS(refusal("[slurm\n"), file + ":1: not TOML");
}

TEST(OwnProfiles, ThatAreMissingAreAnError) {
  EXPECT_HAS(message_of(ErrorKind::kRecipe,
                        [] {
                          ProfileLibrary{Environment{{"LOCKSTEP_PROFILE_PATH", "/no/such"}}};
                        }),
             "LOCKSTEP_PROFILE_PATH names '/no/such', which is not there");
}

TEST(ProfileLibrary, NamesTheNearestForAnUnknownCluster) {
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { kBuiltin.named("frontir"); }),
             "unknown cluster 'frontir', want one of generic, crukci-rocm, frontier");
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { kBuiltin.named("frontir"); }), "did you mean 'frontier'?");
}

TEST(ProfileChecks, NameWhatDoesNotAgree) {
  Profile profile = kBuiltin.named("lumi-g");
  profile.devices.cpu_masks.pop_back();
  profile.slurm.partition = "gone";
  profile.about.unverified = {"node.core"};
  EXPECT_EQ(checked(profile).faults,
            (std::vector<std::string>{"about.unverified names 'node.core', which is no key",
                                      "devices.cpu_masks has 7 entries, but devices.count is 8",
                                      "slurm.partition is 'gone', but there is no [partition.gone]"}));
}

TEST(ProfileSchema, ExplainsEachKeyAndSaysWhatItTakes) {
  for (const auto& row : profile_schema()) {
    EXPECT_FALSE(row.help.empty()) << row.key;
    EXPECT_FALSE(wanted(row).empty()) << row.key;
    std::string key(row.key);
    if (const auto star = key.find('*'); star != std::string::npos) key.replace(star, 1, "some-name");
    EXPECT_EQ(profile_row_of(key).row, &row) << key;
  }
}

TEST(ProfileNames, InCapitalsAreNearToo) {
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { ProfileLibrary(Environment({})).named("LUMI-G"); }),
             "did you mean 'lumi-g'?");
}

}  // namespace
}  // namespace lockstep
