// SPDX-License-Identifier: Apache-2.0
#include "lockstep/agent/agent.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/agent/cache_pack.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/telemetry/process_tree.h"
#include "tests/support/fake_machine.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::TemporaryFolder;

/// A task that lives until the test ends it.
class Task {
 public:
  explicit Task(int rank) : rank_(rank), pid_(::fork()) {
    while (pid_ == 0) ::pause();
  }
  /// Starts the task as a program with this variable alone.
  Task(int rank, const char* variable) : rank_(rank), pid_(::fork()) {
    if (pid_ == 0) {
      const std::array<const char*, 2> env{variable, nullptr};
      ::execle("/bin/sleep", "sleep", "600", nullptr, env.data());
      ::_exit(1);
    }
    while (environment_of_process(pid_).all().size() != 1) ::sched_yield();
  }
  ~Task() { end(); }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  RegisteredTask entry() const {
    return {.rank = rank_, .local_rank = rank_, .pid = pid_, .started = *start_of_process(pid_)};
  }
  /// Waits for the end of the task, and returns the signal that ended it.
  int ended_by() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ended_by();
  }

 private:
  int rank_;
  pid_t pid_;
};

std::vector<json> lines_of(const fs::path& file) {
  std::vector<json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

/// Runs an agent in a separate process, and waits until it ends.
class RunningAgent {
 public:
  RunningAgent(const AgentOptions& options, const Environment& env) : pid_(::fork()) {
    if (pid_ != 0) return;
    run_agent(options, env, Log(2));
    ::_exit(0);
  }
  int code() const {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

void wait_for_line(const fs::path& file, const std::string& part) {
  while (true) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      if (line.find(part) != std::string::npos) return;
    }
    ::sched_yield();
  }
}

TEST(Agents, SampleAllTasksOfTheNodeAndEndWithTheLast) {
  const TemporaryFolder run;
  const TemporaryFolder parent;
  const fs::path node = parent.path() / "node";
  fs::create_directory(node);
  Task first(0);
  Task second(1);
  enter_task(first.entry(), node);
  const RunningAgent agent({.task = first.entry(),
                            .local_world = 2,
                            .node = "n1",
                            .folders = {.run_dir = run.path(), .node_folder = node},
                            .period = std::chrono::milliseconds(20)},
                           {});
  enter_task(second.entry(), node);
  const fs::path file = run.path() / "telemetry-n1.jsonl";
  wait_for_line(file, "\"rank\":1");
  first.end();
  wait_for_line(file, "\"tasks\":[{\"cpu_seconds\":0.0,\"local_rank\":1");
  second.end();
  EXPECT_EQ(agent.code(), 0);
  const auto lines = lines_of(file);
  EXPECT_EQ(lines.front().at("event"), "agent_started");
  EXPECT_EQ(lines.front().at("local_world"), 2);
  EXPECT_EQ(lines.back().at("event"), "agent_ended");
  EXPECT_GT(lines[1].at("memory_total_bytes").get<std::uint64_t>(), 0U);
  EXPECT_EQ(lines[1].at("tasks")[0].at("processes"), 1);
  EXPECT_FALSE(fs::exists(node)) << "the node's folder goes with the job";
}

TEST(Agents, ATaskThatEndsBeforeItIsWatchedIsNotTakenForAnother) {
  const TemporaryFolder run;
  Task task(0);
  RegisteredTask entry = task.entry();
  entry.started += 1;  // Another process has the number now.
  const RunningAgent agent({.task = entry, .node = "n1", .folders = {.run_dir = run.path()}}, {});
  EXPECT_EQ(agent.code(), 0);
}

TEST(Agents, GiveBackWhatTheTasksCompiledWhileTheyRunAndAtTheEnd) {
  const TemporaryFolder shared;
  const TemporaryFolder parent;
  const fs::path node = parent.path() / "node";
  const fs::path pack = shared.path() / "site.zip";
  fs::create_directories(node / "caches/triton");
  Task task(0);
  enter_task(task.entry(), node);
  const RunningAgent agent({.task = task.entry(),
                            .node = "n1",
                            .folders = {.node_folder = node, .caches = node / "caches", .cache_pack = pack},
                            .period = std::chrono::milliseconds(5)},
                           {});
  // A file that was changed just now may still be being written, so it is not packed yet.
  std::ofstream(node / "caches/triton/early") << "compiled";
  fs::last_write_time(node / "caches/triton/early", fs::file_time_type::clock::now() - std::chrono::minutes(2));
  while (!fs::exists(pack)) ::sched_yield();
  std::ofstream(node / "caches/triton/late") << "compiled last";
  task.end();
  EXPECT_EQ(agent.code(), 0);
  const fs::path later = parent.path() / "later";
  CachePack(pack, later).warm([](const std::string& text) { FAIL() << text; });
  EXPECT_EQ(text_of_file(later / "triton/early"), "compiled");
  EXPECT_EQ(text_of_file(later / "triton/late"), "compiled last");
}

TEST(Agents, TellOfTasksThatDoNothingAndThatTheyGoOn) {
  const TemporaryFolder run;
  Task task(0);
  const fs::path file = run.path() / "telemetry-n1.jsonl";
  const RunningAgent agent({.task = task.entry(),
                            .node = "n1",
                            .folders = {.run_dir = run.path()},
                            .health = {.window_s = 0.2},
                            .period = std::chrono::milliseconds(20)},
                           {});
  wait_for_line(file, "\"code\":\"tasks-stuck\"");
  task.end();
  EXPECT_EQ(agent.code(), 0);
  const auto lines = lines_of(file);
  EXPECT_EQ(std::ranges::count_if(lines, [](const json& line) { return line.at("event") == "warning"; }), 1);
}

// The neighbours' devices work. Those of the two tasks, one each, do not.
TEST(Agents, JudgeTheTasksByTheirOwnDevicesOnly) {
  const TemporaryFolder run;
  const TemporaryFolder parent;
  const fs::path node = parent.path() / "node";
  fs::create_directory(node);
  testing::FakeMachine machine(4, 1);
  machine.write("sys/class/kfd/kfd/topology/nodes/0/properties", "simd_count 0\n");
  for (unsigned gpu = 0; gpu < 4; ++gpu) {
    machine.add_amd(0x10 + gpu, 0);
    machine.write("sys/bus/pci/devices/0000:1" + std::to_string(gpu) + ":00.0/gpu_busy_percent", gpu % 2 ? "0" : "90");
  }
  Task first(0);
  Task second(1, "ROCR_VISIBLE_DEVICES=3");
  enter_task(first.entry(), node);
  enter_task(second.entry(), node);
  const RunningAgent agent({.task = first.entry(),
                            .local_world = 2,
                            .node = "n1",
                            .folders = {.run_dir = run.path(), .node_folder = node},
                            .network = {.root = machine.root()},
                            .health = {.window_s = 0.2},
                            .period = std::chrono::milliseconds(20)},
                           {{"ROCR_VISIBLE_DEVICES", "1"}});
  const fs::path file = run.path() / "telemetry-n1.jsonl";
  wait_for_line(file, "\"code\":\"tasks-stuck\"");
  first.end();
  second.end();
  EXPECT_EQ(agent.code(), 0);
  std::set<std::string> seen;
  for (const auto& line : lines_of(file)) {
    for (const auto& device : line.value("devices", json::array())) seen.insert(device.at("pci").get<std::string>());
  }
  EXPECT_EQ(seen, (std::set<std::string>{"0000:11:00.0", "0000:13:00.0"}));
}

TEST(Agents, RemoveWhatRankZeroPublishedOnceTheTasksHaveEnded) {
  const TemporaryFolder folder;
  RendezvousFile published(folder.path() / "runs/.meeting", "exec-slurm-1.0");
  published.publish({"10.0.0.1", 1});
  Task task(0);
  const RunningAgent agent({.task = task.entry(),
                            .node = "n1",
                            .folders = {.published = published, .publish_for = std::chrono::milliseconds(0)}},
                           {});
  EXPECT_TRUE(fs::exists(published.path()));
  task.end();
  EXPECT_EQ(agent.code(), 0);
  EXPECT_TRUE(fs::is_empty(folder.path())) << "neither the file nor its folders stay";
}

TEST(Agents, StopTheTasksOfANodeWhoseNcclFellBackToSocketsWhereThatIsAskedFor) {
  const TemporaryFolder root;
  fs::create_directories(root.path() / "sys/class/infiniband/mlx5_0");
  const TemporaryFolder run;
  fs::create_directory(run.path() / "logs");
  std::ofstream(run.path() / "logs/nccl-0000.log") << "a:1:2 [0] NCCL INFO Using network Socket\n";
  Task task(0);
  const RunningAgent agent({.task = task.entry(),
                            .node = "n1",
                            .folders = {.run_dir = run.path()},
                            .network = {.sockets = SocketPolicy::kStop, .spans_nodes = true, .root = root.path()},
                            .period = std::chrono::milliseconds(20)},
                           {});
  EXPECT_EQ(task.ended_by(), SIGTERM);
  EXPECT_EQ(agent.code(), 0);
  const auto lines = lines_of(run.path() / "telemetry-n1.jsonl");
  const auto is_warning = [](const json& line) { return line.at("event") == "warning"; };
  const auto warning = std::find_if(lines.begin(), lines.end(), is_warning);
  ASSERT_NE(warning, lines.end());
  EXPECT_HAS(warning->at("text").get<std::string>(), "InfiniBand (mlx5_0)");
}

TEST(Agents, LeaveWhatWasPublishedForNodesThatStartLater) {
  const TemporaryFolder folder;
  RendezvousFile published(folder.path() / ".meeting", "exec-slurm-1.0");
  published.publish({"10.0.0.1", 1});
  Task task(0);
  const RunningAgent agent({.task = task.entry(), .node = "n1", .folders = {.published = published}}, {});
  task.end();
  EXPECT_EQ(agent.code(), 0);
  EXPECT_TRUE(fs::exists(published.path()));
}

TEST(Agents, AreNoChildrenAndKeepNoDescriptorOfTheirStarter) {
  const TemporaryFolder run;
  Task task(0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // So that the agent falls to this test, which waits for its end.
  start_agent(
      {.task = task.entry(), .node = "n1", .folders = {.run_dir = run.path()}, .period = std::chrono::milliseconds(20)},
      {}, Log(2));
  wait_for_line(run.path() / "telemetry-n1.jsonl", "sample");
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the agent holds the pipe's other end";
  ::close(ends[0]);
  task.end();
  int status = -1;
  const pid_t agent = ::wait(&status);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  EXPECT_GT(agent, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(lines_of(run.path() / "telemetry-n1.jsonl").back().at("event"), "agent_ended");
}

TEST(Agents, LeaveTheNodesFolderToTheNextProgramOfTheStep) {
  const TemporaryFolder parent;
  const fs::path node = parent.path() / "node";
  fs::create_directory(node);
  Task task(0);
  enter_task(task.entry(), node);
  const RunningAgent agent({.task = task.entry(), .node = "n1", .folders = {.node_folder = node}}, {});
  enter_task({.rank = 0, .local_rank = 0, .pid = ::getpid(), .started = 1}, node);
  task.end();
  EXPECT_EQ(agent.code(), 0);
  EXPECT_TRUE(fs::exists(node));
}

TEST(Agents, ARegisterThatIsHalfWrittenIsNoTask) {
  const TemporaryFolder node;
  EXPECT_EQ(entered_task(0, node.path()), std::nullopt);
  std::ofstream(node.path() / "task-0") << "0 47";
  EXPECT_EQ(entered_task(0, node.path()), std::nullopt);
  enter_task({.rank = 8, .local_rank = 0, .pid = 47, .started = 11}, node.path());
  const auto task = entered_task(0, node.path());
  ASSERT_TRUE(task);
  EXPECT_EQ(task->rank, 8);
  EXPECT_EQ(task->pid, 47);
  EXPECT_EQ(task->started, 11U);
}

}  // namespace
}  // namespace lockstep
