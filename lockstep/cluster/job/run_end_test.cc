// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/run_end.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(EndedJobs, AreReadFromSqueue) {
  // Output of Slurm 22.05, in which exit_code is a status of waitpid().
  const auto ends = parsed_ended_squeue(
      "52203                           CANCELLED                       15                              \n"
      "52201                           FAILED                          1280                            \n"
      "52204                           RUNNING                         0                               \n");
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends.at("52203").state, "CANCELLED");
  EXPECT_EQ(ends.at("52203").code, 143);
  EXPECT_EQ(ends.at("52201").code, 5);
}

TEST(EndedJobs, AreReadFromSacct) {
  const auto ends =
      parsed_ended_sacct("45|CANCELLED by 1000|0:15\n46|OUT_OF_MEMORY|0:125\n47|RUNNING|0:0\n48|FAILED|5:0\n");
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends.at("45").state, "CANCELLED");
  EXPECT_EQ(ends.at("45").code, 143);
  EXPECT_EQ(ends.at("48").code, 5);
}

class RunEndTest : public ::testing::Test {
 protected:
  RunEnd end(const std::string& lines) {
    std::ofstream(folder_.path() / "exits.jsonl") << lines;
    return run_end({folder_.path(), {.job = "45", .tasks = 1}}).value_or(RunEnd{.state = "unknown"});
  }
  testing::TemporaryFolder folder_;
};

TEST_F(RunEndTest, IsTheScriptsOwnUnlessSlurmKnowsBetter) {
  const std::string script = R"({"job":"45","start":0,"code":143,"time":1})"
                             "\n";
  EXPECT_EQ(end(script).state, "failed");
  EXPECT_EQ(end(script + R"({"job":"45","code":143,"state":"TIMEOUT"})").state, "timeout");
  EXPECT_EQ(end(script + R"({"job":"45","code":0,"state":"NODE_FAIL"})").state, "node lost");
  EXPECT_EQ(end(R"({"job":"45","start":0,"code":0,"time":1})").state, "ended");
  EXPECT_EQ(end(R"({"job":"45","start":0,"code":75,"time":1})").state, "stopped");
}

TEST_F(RunEndTest, OfALostNodeHasItsOwnCodeWhateverTheKilledScriptCouldSay) {
  const auto found = end(R"({"job":"45","rank":0,"start":0,"node":"n3","code":143,"signal":15,"time":1,"last":[]})"
                         "\n"
                         R"({"job":"45","start":0,"code":143,"time":1})"
                         "\n"
                         R"({"job":"45","code":0,"state":"NODE_FAIL"})");
  EXPECT_EQ(found.state, "node lost");
  EXPECT_EQ(found.code, 7);
}

TEST_F(RunEndTest, HasACodeAlsoIfSlurmGivesNone) {
  EXPECT_EQ(end(R"({"job":"45","code":0,"state":"TIMEOUT"})").code, 143);
  EXPECT_EQ(end(R"({"job":"45","code":0,"state":"NODE_FAIL"})").code, 7);
  EXPECT_EQ(end(R"({"job":"44","code":1,"state":"FAILED"})").state, "unknown") << "another job's";
}

TEST_F(RunEndTest, IsKnownWithoutTheQueueOnlyIfNoOtherStartFollows) {
  const auto state = [&](const std::string& line) {
    std::ofstream(folder_.path() / "exits.jsonl") << line;
    return state_without_queue({folder_.path(), {.job = "45", .tasks = 1}});
  };
  EXPECT_EQ(state(""), "unknown");
  EXPECT_EQ(state(R"({"job":"44","start":0,"code":1,"time":1})"), "unknown") << "another job's";
  EXPECT_EQ(state(R"({"job":"45","start":0,"code":0,"time":1})"), "ended");
  EXPECT_EQ(state(R"({"job":"45","start":0,"code":3,"time":1})"), "failed");
  EXPECT_EQ(state(R"({"job":"45","start":0,"code":75,"time":1})"), "unknown") << "it may be in the queue again";
  EXPECT_EQ(state(R"({"job":"45","start":0,"code":143,"time":1})"), "unknown") << "Slurm may start it again";
  EXPECT_EQ(state(R"({"job":"45","code":143,"state":"TIMEOUT"})"), "timeout");
  std::ofstream(folder_.path() / "stop-45") << "";
  EXPECT_EQ(state(R"({"job":"45","start":0,"code":75,"time":1})"), "stopped");
  std::ofstream(folder_.path() / "result.json") << "{}";
  EXPECT_EQ(state(""), "finished");
}

}  // namespace
}  // namespace lockstep
