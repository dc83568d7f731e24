// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/stage.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/cluster/job/stage_pack.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/launch/process.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
namespace fs = std::filesystem;

/// Makes a venv with the files that `python -m venv` writes and that staging reads.
fs::path made_venv(const fs::path& folder) {
  fs::create_directories(folder / "bin");
  write_whole(folder / "pyvenv.cfg", "home = /usr/bin\n", false);
  write_whole(folder / "bin" / "tool", "#!" + (folder / "bin/python").string() + "\nprint(1)\n", false);
  return folder;
}

JobStage staged(const std::string& word, const fs::path& packs, const std::string& cluster = "generic") {
  return job_stage({.word = word, .trainer = {}, .packs = packs}, ProfileLibrary(Environment{}).named(cluster));
}

TEST(Stage, KnowsAnEnvironmentByWhatLiesInIt) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(staged(made_venv(folder.path() / "mine").string(), folder.path()).kind, StageKind::kVenv);
  fs::create_directories(folder.path() / "other" / "conda-meta");
  EXPECT_EQ(staged((folder.path() / "other/").string(), folder.path()).kind, StageKind::kConda);
  EXPECT_EQ(staged("", folder.path()).kind, StageKind::kNone);
}

TEST(Stage, NamesThePackByEveryFilesTimeAndSize) {
  const testing::TemporaryFolder folder;
  const auto venv = made_venv(folder.path() / "mine");
  const auto before = staged(venv.string(), "/packs").pack;
  EXPECT_TRUE(before.filename().string().starts_with("mine-")) << before;
  EXPECT_EQ(staged(venv.string(), "/packs").pack, before);
  write_whole(venv / "bin" / "tool", "changed", false);
  EXPECT_NE(staged(venv.string(), "/packs").pack, before);
}

TEST(Stage, TakesTheLargeDiskOfANodeWhereThereIsOne) {
  const testing::TemporaryFolder folder;
  const auto venv = made_venv(folder.path() / "mine").string();
  const auto frontier = staged(venv, "/packs", "frontier");
  EXPECT_EQ(frontier.folder, "/mnt/bb/$USER/lockstep-stage-$SLURM_JOB_ID");
  EXPECT_EQ(frontier.flag, "--constraint=nvme");
  EXPECT_EQ(staged(venv, "/packs").folder, "/tmp/lockstep-stage-$SLURM_JOB_ID");
}

TEST(Stage, RefusesWhatIsNoEnvironment) {
  const testing::TemporaryFolder folder;
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { staged(folder.path().string(), "/packs"); }),
             "is neither a venv (pyvenv.cfg) nor a conda environment (conda-meta/)");
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { staged("/no/such", "/packs"); }), "there is no folder '/no/such'");
}

TEST(Stage, PacksOnceAndLeavesNothingHalfMade) {
  const testing::TemporaryFolder folder;
  const auto env = Environment::of_process();
  const auto packs = folder.path() / "packs";
  const auto stage = staged(made_venv(folder.path() / "mine").string(), packs);
  EXPECT_TRUE(make_pack(stage, env));
  EXPECT_FALSE(make_pack(stage, env)) << "it is there already";
  EXPECT_EQ(std::distance(fs::directory_iterator(packs), fs::directory_iterator()), 1);
  EXPECT_HAS(run_process({"tar", "-tf", stage.pack.string()}, env).output, "./bin/tool");
  JobStage gone = stage;
  gone.from = folder.path() / "gone";
  gone.pack = packs / "gone.tar";
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { make_pack(gone, env); }), "tar could not make '");
  EXPECT_EQ(std::distance(fs::directory_iterator(packs), fs::directory_iterator()), 1);
}

TEST(Stage, FindsAProgramOfTheEnvironmentByItsName) {
  const JobStage stage{.kind = StageKind::kVenv, .from = "/env"};
  EXPECT_EQ(staged_word(stage, "/env/bin/python"), "python");
  EXPECT_EQ(staged_word(stage, "/usr/bin/python"), "/usr/bin/python");
}

TEST(StagedLibraries, AreThoseFromElsewhereThanTheSystemsFolders) {
  const auto found = libraries_in(
      "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x2)\n"
      "\tlibtorch_cpu.so => /opt/torch/lib/libtorch_cpu.so (0x3)\n");
  EXPECT_EQ(found, std::vector<fs::path>{"/opt/torch/lib/libtorch_cpu.so"});
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [] { libraries_in("\tlibtorch_cpu.so => not found\n"); }),
             "the library libtorch_cpu.so of the training half is not found");
}

TEST(StagedPrograms, LookForLibrariesBesideThemselves) {
  const std::string before = std::string("ELF\0/opt/torch/lib:/opt/cuda\0.text", 34);
  const auto after = with_own_folder(before, "/opt/torch/lib:/opt/cuda");
  EXPECT_EQ(after.size(), before.size());
  EXPECT_EQ(std::string(after.c_str() + 4), "$ORIGIN");
  EXPECT_EQ(with_own_folder(before, ""), before);
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { with_own_folder(before, "/elsewhere"); }),
             "cannot be replaced by $ORIGIN");
}

}  // namespace
}  // namespace lockstep
