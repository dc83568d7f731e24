// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/rendezvous_file.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

Placement slurm_job() {
  Placement at;
  at.world = 2;
  at.source = "slurm";
  at.job = "4711_3.0-r1";
  at.restart = 1;
  return at;
}

TEST(RendezvousFolder, IsThatOfTheRunElseOfAllRuns) {
  const Environment env{{"LOCKSTEP_RUNS", "/scratch/runs"}};
  EXPECT_EQ(rendezvous_folder("/scratch/runs/mnist-1", env), "/scratch/runs/mnist-1/.meeting");
  EXPECT_EQ(rendezvous_folder({}, env), "/scratch/runs/.meeting");
  EXPECT_EQ(rendezvous_folder({}, {}), fs::current_path() / "runs/.meeting");
}

TEST(RendezvousFile, IsNamedAfterLauncherJobAndRestart) {
  EXPECT_EQ(RendezvousFile::for_ranks(slurm_job(), "/m").path(), "/m/slurm-4711_3.0-r1-1");
  Placement at = slurm_job();
  at.job = "a/b";
  EXPECT_EQ(RendezvousFile::for_ranks(at, "/m").path(), "/m/slurm-a_b-1");
}

TEST(RendezvousFile, OfAProgramIsNamedAfterSrunsPortToo) {
  const auto path = [](const Environment& env) { return RendezvousFile::for_program(slurm_job(), env, "/m").path(); };
  EXPECT_EQ(path({}), "/m/exec-slurm-4711_3.0-r1");
  EXPECT_EQ(path({{"SLURM_SRUN_COMM_PORT", "40001"}}), "/m/exec-slurm-4711_3.0-r1-40001");
  EXPECT_EQ(path({{"SLURM_SRUN_COMM_PORT", "40001"}, {"SLURM_HET_SIZE", "2"}}), "/m/exec-slurm-4711_3.0-r1");
}

TEST(RendezvousFile, NeedsAJob) {
  Placement at = slurm_job();
  at.job.clear();
  const std::string fact = "slurm started 2 ranks but neither MASTER_ADDR and MASTER_PORT nor a job is set";
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { RendezvousFile::for_ranks(at, "/m"); }), fact);
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { RendezvousFile::for_program(at, {}, "/m"); }), fact);
}

TEST(RendezvousFile, TellsOthersWhatWasPublished) {
  const TemporaryFolder folder;
  for (const auto& master : {Endpoint{"10.0.0.1", 18432}, Endpoint{"fd00::1", 65535}}) {
    RendezvousFile file(folder.path() / ".meeting", "job");
    file.publish(master);
    EXPECT_EQ(text_of_file(file.path()), master.address + " " + std::to_string(master.port) + "\n");
    const auto found = RendezvousFile(folder.path() / ".meeting", "job").read();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->address, master.address);
    EXPECT_EQ(found->port, master.port);
  }
}

TEST(RendezvousFile, TellsNothingUntilItIsWhole) {
  const TemporaryFolder folder;
  const RendezvousFile file(folder.path(), "job");
  EXPECT_FALSE(file.read());
  for (const char* text : {"", "10.0.0.1", "10.0.0.1 x", "a b 1"}) {
    write_whole(file.path(), text);
    EXPECT_FALSE(file.read()) << text;
  }
}

TEST(RendezvousFile, IsRemovedWithTheFoldersThatWereMadeForIt) {
  const TemporaryFolder folder;
  RendezvousFile file(folder.path() / "a/runs/.meeting", "job");
  file.publish({"10.0.0.1", 1});
  const RendezvousFile copy = file;  // As an agent has it, which outlives rank 0.
  copy.remove();
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RendezvousFile, LeavesFoldersThatWereThereOrThatOthersUse) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "runs");
  RendezvousFile first(folder.path() / "runs/.meeting", "first");
  RendezvousFile second(folder.path() / "runs/.meeting", "second");
  first.publish({"10.0.0.1", 1});
  second.publish({"10.0.0.1", 2});
  first.remove();
  EXPECT_FALSE(first.read());
  EXPECT_TRUE(second.read());
  second.remove();
  EXPECT_FALSE(fs::exists(folder.path() / "runs/.meeting"));
  EXPECT_TRUE(fs::exists(folder.path() / "runs")) << "it was there before";
}

TEST(RendezvousFile, IsNotRemovedByThoseWhoOnlyRead) {
  const TemporaryFolder folder;
  RendezvousFile file(folder.path() / ".meeting", "job");
  file.publish({"10.0.0.1", 1});
  const RendezvousFile reader(folder.path() / ".meeting", "job");
  { const RendezvousFileRemover remover(reader); }
  EXPECT_TRUE(file.read());
  { const RendezvousFileRemover remover(file); }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RendezvousFile, SaysWhereItCannotBeWritten) {
  const TemporaryFolder folder;
  write_whole(folder.path() / "runs", "a file");
  RendezvousFile file(folder.path() / "runs/.meeting", "job");
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { file.publish({"10.0.0.1", 1}); }), "runs");
}

}  // namespace
}  // namespace lockstep
