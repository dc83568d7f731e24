// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/signal_option.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(SignalOption, OfTheRanksIsTakenAsItStands) {
  EXPECT_EQ(signal_request("USR1@90", {}).value, "USR1@90");
  EXPECT_EQ(signal_request("SIGTERM@120", {}).value, "TERM@120");
  EXPECT_EQ(signal_request("R:USR2@30", {}).value, "USR2@30");
  EXPECT_EQ(signal_request("usr1", {}).value, "USR1@60") << "sbatch(1): the default is 60 seconds";
  EXPECT_EQ(signal_request("10@200", {}).value, "USR1@200") << "kill -l 10";
}

TEST(SignalOption, OfTheShellIsWhatTheShellHandsOn) {
  EXPECT_EQ(signal_request("B:USR1@90", {"trap 'kill -USR2 \"$child\"; wait' USR1"}).value, "USR2@90");
  EXPECT_EQ(signal_request("B:USR1@90", {"trap 'kill -s TERM $pid' USR1"}).value, "TERM@90");
  EXPECT_EQ(signal_request("B:USR1@90", {"handler() {", "  scancel --signal=SIGUSR1 $SLURM_JOB_ID.0", "}"}).value,
            "USR1@90");
  EXPECT_EQ(signal_request("B:10", {"trap \"scancel -s 12 $SLURM_JOB_ID\" SIGUSR1"}).value, "USR2@60");
}

TEST(SignalOption, WithNoPlaceInOursIsLeftOutWithTheReason) {
  const auto requeue = signal_request("B:USR1@90", {"trap 'scontrol requeue $SLURM_JOB_ID' USR1", "# kill -USR2"});
  EXPECT_EQ(requeue.value, "");
  EXPECT_NE(requeue.left_out.find("--chain K goes on in a next job"), std::string::npos);
  EXPECT_NE(signal_request("KILL@90", {}).left_out.find("USR1, USR2, TERM, INT or HUP"), std::string::npos);
  EXPECT_NE(signal_request("USR1@many", {}).left_out.find("whole seconds"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
