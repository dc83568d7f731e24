// SPDX-License-Identifier: Apache-2.0
// `lockstep stop` of a trial that shares its step did nothing, or ended the whole step. A failing squeue looked like a
// trial that does not run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/system_files.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/observe/process_identity.h"
#include "lockstep/observe/request_watch.h"
#include "lockstep/observe/run_lock.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

class StopInSharedStep : public ::testing::Test {
 protected:
  StopInSharedStep() {
    tool("squeue", "echo '7.batch|batch'; echo '7.0|01-a'; echo '7.1|03-c'");
    tool("scancel", "echo \"$@\" >> \"$ASKED\"");
    for (const auto& [name, step] : {std::pair("01-a", "01-a"), {"02-b", "01-a"}, {"03-c", "03-c"}}) write(name, step);
  }
  void tool(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(folder_.path() / name, fs::perms::owner_all);
  }
  fs::path run_dir(const std::string& name) const { return folder_.path() / "sweep" / name; }
  void write(const std::string& name, const std::string& step) const {
    fs::create_directories(run_dir(name));
    std::ofstream(run_dir(name) / "job.json")
        << R"({"schema":1,"job":"7","name":"x","cluster":"generic","command":"x","nodes":1,"tasks":1,"is_recipe":true,)"
        << R"("time_s":60,"submitted":1,"packed_in":"/sweep/job-1","step":")" << step << "\"}";
  }
  std::string stop(const std::string& name) const {
    const Environment env{{"PATH", folder_.path().string() + ":/usr/bin:/bin"}, {"ASKED", asked_.string()}};
    return stop_run(run_job(name, {folder_.path()}), {{"7", {.state = "RUNNING", .reason = "None", .start = {}}}}, env);
  }
  testing::TemporaryFolder folder_;
  fs::path asked_ = folder_.path() / "asked";
};

TEST_F(StopInSharedStep, OfATrialAloneInItsStepSignalsTheStep) {
  EXPECT_EQ(stop("03-c"), "the trial writes a snapshot and ends; the others of job 7 go on");
  EXPECT_EQ(text_or_nothing(asked_), "--signal=USR1 7.1\n");
}

TEST_F(StopInSharedStep, AsksATrialThatTakesRequests) {
  const auto name = std::string("02-b");
  const RunLock lock(run_dir(name), ProcessIdentity::of_process(Environment::of_process()));
  RequestWatch watch(run_dir(name));
  EXPECT_EQ(stop(name), "the trial writes a snapshot and ends; the others of job 7 go on");
  EXPECT_EQ(text_or_nothing(asked_), "") << "a signal would reach the other trial too";
  EXPECT_TRUE(fs::exists(run_dir(name) / "stop-7"));
}

TEST_F(StopInSharedStep, RefusesAndNamesTheOthersIfTheTrialTakesNoRequests) {
  const auto message = message_of(ErrorKind::kEnvironment, [&] { stop("02-b"); });
  EXPECT_HAS(message, "trial '02-b' takes no request, and shares step 7.0 with 01-a\n");
  EXPECT_HAS(message, "hint: `scancel 7.0` ends all of them");
  EXPECT_EQ(text_or_nothing(asked_), "");
  EXPECT_FALSE(fs::exists(run_dir("02-b") / "stop-7")) << "nothing is stopped";
  EXPECT_EQ(message_of(ErrorKind::kEnvironment, [&] { stop(run_dir("02-b").string() + "/"); }), message);
}

TEST_F(StopInSharedStep, SignalsTheStepOnceTheOthersHaveFinished) {
  std::ofstream(run_dir("01-a") / "result.json") << "{}";
  stop("02-b");
  EXPECT_EQ(text_or_nothing(asked_), "--signal=USR1 7.0\n");
}

TEST_F(StopInSharedStep, FailsIfSlurmDoesNotListTheSteps) {
  tool("squeue", "echo 'slurm_get_job_steps error: Socket timed out' >&2; exit 1");
  const auto message = message_of(ErrorKind::kEnvironment, [&] { stop("03-c"); });
  EXPECT_HAS(message, "squeue does not list the steps of job 7: slurm_get_job_steps error: Socket timed out");
  EXPECT_HAS(message, "hint: the trial still runs");
}

}  // namespace
}  // namespace lockstep
