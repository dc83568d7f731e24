// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/process_identity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

ProcessIdentity self() { return ProcessIdentity::of_process({}); }

TEST(ProcessIdentity, OfThisProcessIsAlive) {
  EXPECT_EQ(self().pid, ::getpid());
  EXPECT_EQ(liveness(self(), self()), Liveness::kAlive);
}

TEST(ProcessIdentity, OfAnEndedChildIsDeadEvenBeforeItIsReaped) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::pause();
  ProcessIdentity other = self();
  other.pid = child;
  // This process and its child may have started within the same tick.
  other.started += 1'000'000;
  EXPECT_EQ(liveness(other, self()), Liveness::kDead) << "another start time means another process";
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(liveness(other, self()), Liveness::kDead);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(liveness(other, self()), Liveness::kDead);
}

TEST(ProcessIdentity, OnAnotherMachineOrInAnotherContainerIsUnknown) {
  ProcessIdentity elsewhere = self();
  elsewhere.boot = "another";
  EXPECT_EQ(liveness(elsewhere, self()), Liveness::kUnknown);
  ProcessIdentity contained = self();
  contained.pid_namespace = "pid:[1]";
  EXPECT_EQ(liveness(contained, self()), Liveness::kUnknown);
}

TEST(ProcessIdentity, OfAnEarlierStartOfTheSameJobIsDead) {
  ProcessIdentity before = ProcessIdentity::of_process({{"SLURM_JOB_ID", "56"}});
  before.boot = "another node";
  const auto now = ProcessIdentity::of_process({{"SLURM_JOB_ID", "56"}, {"SLURM_RESTART_COUNT", "1"}});
  EXPECT_EQ(liveness(before, now), Liveness::kDead);
  EXPECT_EQ(liveness(now, ProcessIdentity::of_process({{"SLURM_JOB_ID", "56"}})), Liveness::kAlive);
}

TEST(ProcessIdentity, SurvivesItsText) {
  const auto identity = ProcessIdentity::of_process({{"SLURM_JOB_ID", "56"}, {"SLURM_RESTART_COUNT", "2"}});
  EXPECT_EQ(ProcessIdentity::from_json(identity.to_json()), identity);
  EXPECT_EQ(identity.described(), "process " + std::to_string(identity.pid) + " on " + identity.host + ", job 56");
}

TEST(ProcessIdentity, OfATornOrForeignTextIsNone) {
  const std::string whole = self().to_json();
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(ProcessIdentity::from_json(whole.substr(0, cut))) << cut;
  }
  EXPECT_FALSE(ProcessIdentity::from_json(R"({"host":1,"pid":"x"})"));
  EXPECT_FALSE(ProcessIdentity::from_json("[]"));
}

}  // namespace
}  // namespace lockstep
