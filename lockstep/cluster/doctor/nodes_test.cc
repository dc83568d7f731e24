// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/nodes.h"

#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/cluster/doctor/meeting.h"
#include "lockstep/cluster/doctor/wire.h"
#include "lockstep/launch/socket.h"
#include "tests/support/fake_node.h"
#include "tests/support/node_faults.h"

namespace lockstep {
namespace {

using testing::found;
using testing::listed;

/// Changes the facts that a rank sends, or its requests.
using Change = std::function<void(int rank, TaskReport& self, MeetingOptions& options)>;

/// Tasks of a job, simulated as threads on this machine. Each is on a node of its own, unless the test says otherwise.
struct Job {
  int nodes = 3;
  int tasks_each = 1;
  MeetingOptions options{};
  std::function<void(int port)> stranger{};  ///< Calls on rank 0 too, before the others do.

  Job() {
    options.link_bytes = std::size_t{1} << 20U;
    options.sum_elements = 1001;  // Parts of different lengths.
  }

  Placement place(int rank) const {
    Placement at;
    at.rank = rank;
    at.world = nodes * tasks_each;
    at.local_rank = rank % tasks_each;
    at.local_world = tasks_each;
    at.node_rank = rank / tasks_each;
    at.nodes = nodes;
    at.job = "4711_0";
    return at;
  }

  TaskReport view(int rank) const {
    return {.rank = rank,
            .node_rank = rank / tasks_each,
            .host = "n" + std::to_string(rank / tasks_each + 1),
            .device = "0000:c" + std::to_string(rank % tasks_each) + ":00.0",
            .cpus = std::to_string(rank % tasks_each),
            .cores = 1,
            .versions = "Linux 5.14"};
  }

  /// Runs all ranks except the absent ones. Rank 0 runs in this thread.
  JobReport run(const Change& change = {}, const std::vector<int>& absent = {}) const {
    // This socket stays bound to the end, so that no other program gets the port. SO_REUSEADDR allows rank 0 to listen
    // on it.
    const auto kept = bind_all_addresses(0);
    const int port = port_of(kept);
    const auto attend = [&, this](int rank) {
      auto self = view(rank);
      auto own = options;
      if (change) change(rank, self, own);
      return meeting(place(rank), {"127.0.0.1", port}, self, own);
    };
    std::latch others_may_call(stranger ? 1 : 0);
    std::vector<std::jthread> others;
    for (int rank = 1; rank < nodes * tasks_each; ++rank) {
      if (std::ranges::find(absent, rank) != absent.end()) continue;
      others.emplace_back([&attend, &others_may_call, rank] {
        others_may_call.wait();
        try {
          attend(rank);
        } catch (const Error&) {
          // Rank 0 reports the result.
        }
      });
    }
    if (stranger) {
      others.emplace_back([&] {
        stranger(port);
        others_may_call.count_down();
      });
    }
    return attend(0).value();
  }
};

/// Returns all findings except those on slow links. The speed depends on the load of this machine, and has tests of its
/// own below.
std::vector<Finding> judged(JobReport job) {
  job.links.clear();
  return merged(job);
}

/// Expects the finding `code` for a job with the change or with absent ranks, and no such finding for the unchanged
/// job.
Finding expected_of(const Job& job, const std::string& code, const Change& change,
                    const std::vector<int>& absent = {}) {
  EXPECT_EQ(found(judged(job.run()), code), nullptr);
  const auto bad = judged(job.run(change, absent));
  const auto* finding = found(bad, code);
  EXPECT_NE(finding, nullptr) << listed(bad);
  return finding == nullptr ? Finding{} : *finding;
}

TEST(Meeting, OfSoundNodesFindsNothingAndMeasuresEachLink) {
  Job job;
  job.nodes = 4;
  job.tasks_each = 2;
  const auto view = job.run();
  EXPECT_EQ(view.tasks.size(), 8U);
  EXPECT_TRUE(view.absent.empty());
  EXPECT_TRUE(view.broken.empty());
  EXPECT_TRUE(view.wrong.empty());
  EXPECT_EQ(view.clocks.size(), 3U);
  ASSERT_EQ(view.links.size(), 4U);
  for (const auto& link : view.links) EXPECT_GT(link.bytes_per_second, 1e6);
}

TEST(Meeting, TellsRank0OfWhatTheOthersFound) {
  const auto view = Job().run([](int rank, TaskReport& self, MeetingOptions&) {
    if (rank > 0)
      self.findings = {{.code = "shm-small", .severity = Severity::kWarning, .fact = "small", .fix = "grow"}};
  });
  const auto all = judged(view);
  const auto* finding = found(all, "shm-small");
  ASSERT_NE(finding, nullptr);
  auto hosts = finding->hosts;
  std::ranges::sort(hosts);
  EXPECT_EQ(hosts, (std::vector<std::string>{"n2", "n3"}));
  EXPECT_EQ(finding->severity, Severity::kWarning);
}

TEST(Meeting, TellsOnceOfWhatAllNodesHaveEachWithItsOwnName) {
  const auto all = judged(Job().run([](int, TaskReport& self, MeetingOptions&) {
    self.findings = {{.code = "network-name-unknown", .fact = "'" + self.host + "' does not resolve", .fix = "ask"}};
  }));
  ASSERT_EQ(all.size(), 1U) << listed(all);
  EXPECT_EQ(all.front().hosts.size(), 3U);
}

TEST(NodesFault, AClockThatIsOff) {
  const auto finding = expected_of(Job(), "nodes-clock", [](int rank, TaskReport&, MeetingOptions& options) {
    if (rank == 2) options.wall = [] { return std::chrono::system_clock::now() + std::chrono::seconds(90); };
  });
  EXPECT_HAS(finding.fact, "the clock of n3 is 90.0 s ahead of rank 0's");
  EXPECT_HAS(finding.fix, "--exclude=n3");
}

TEST(NodesFault, ATaskThatDoesNotCome) {
  Job job;
  job.options.timeout = std::chrono::seconds(5);  // The others come late on a busy machine.
  EXPECT_HAS(expected_of(job, "nodes-absent", {}, {2}).fact, "rank 2 did not reach rank 0 in time, 2 tasks did");
}

TEST(NodesFault, AMeetingEndsInTimeThoughNobodyComes) {
  Job job;
  job.options.timeout = std::chrono::milliseconds(600);
  const auto start = Clock::now();
  const auto view = job.run({}, {1, 2});
  EXPECT_LT(seconds_between(start, Clock::now()), 15.0);
  EXPECT_EQ(view.absent, (std::vector<int>{1, 2}));
}

TEST(NodesFault, TwoRanksThatTakeOneDevice) {
  Job job;
  job.nodes = 1;
  job.tasks_each = 3;
  const auto finding = expected_of(job, "layout-device-shared",
                                   [](int, TaskReport& self, MeetingOptions&) { self.device = "0000:c1:00.0"; });
  EXPECT_HAS(finding.fact, "ranks 0, ");
  EXPECT_HAS(finding.fact, "on n1 take the same device, 0000:c1:00.0");
}

TEST(NodesFault, OneCoreForAllTasks) {
  Job job;
  job.nodes = 1;
  job.tasks_each = 4;
  const auto finding =
      expected_of(job, "layout-one-core", [](int, TaskReport& self, MeetingOptions&) { self.cpus = "0"; });
  EXPECT_HAS(finding.fact, "all 4 tasks on n1 run on CPU 0 (1 core)");
}

TEST(NodesFault, ANodeOfAnotherDriver) {
  const auto finding = expected_of(Job(), "nodes-differ", [](int rank, TaskReport& self, MeetingOptions&) {
    if (rank == 1) self.versions = "Linux 5.14, amdgpu 6.3.6";
  });
  EXPECT_HAS(finding.fact, "n2 has Linux 5.14, amdgpu 6.3.6, the others Linux 5.14");
}

JobReport with_rates(const std::vector<double>& rates) {
  JobReport job;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const auto name = [&](std::size_t at) { return "n" + std::to_string(at % rates.size() + 1); };
    job.links.push_back({name(i), name(i + 1), rates[i]});
  }
  return job;
}

TEST(NodesFault, ANodeThatIsSlowBothWaysIsNamed) {
  Findings bad;
  check_nodes(with_rates({1e9, 1e8, 1e8, 1.1e9, 0.9e9}), bad);
  const auto* finding = found(bad.list(), "nodes-slow");
  ASSERT_NE(finding, nullptr);
  EXPECT_HAS(finding->fact, "n3: what comes and goes takes 95.4 MiB/s over TCP, between the others 858.3 MiB/s");
  EXPECT_HAS(finding->fix, "--exclude=n3");
  EXPECT_EQ(bad.list().size(), 1U);
  Findings sound;
  check_nodes(with_rates({1e9, 0.8e9, 0.7e9, 1.1e9, 0.9e9}), sound);
  EXPECT_TRUE(sound.list().empty());
}

TEST(NodesFault, ALinkThatIsSlowOneWayNamesBothEnds) {
  Findings bad;
  check_nodes(with_rates({1e9, 1e8, 1e9, 1.1e9}), bad);
  const auto* finding = found(bad.list(), "nodes-slow");
  ASSERT_NE(finding, nullptr);
  EXPECT_HAS(finding->fact, "from n2 to n3 come");
}

TEST(NodesFault, AWrongSumAndABrokenRing) {
  Findings bad;
  JobReport job;
  job.wrong = {"n2"};
  job.broken = {"n3 (connecting to 10.0.0.4)", "n4 (waiting for the node before)"};
  check_nodes(job, bad);
  EXPECT_HAS(found(bad.list(), "nodes-wrong-sum")->fact, "n2");
  const auto fact = found(bad.list(), "nodes-broken")->fact;
  EXPECT_HAS(fact, "n3 (connecting to 10.0.0.4)");
  EXPECT_EQ(fact.find("n4"), std::string::npos) << "it only waits for the other";
}

TEST(Meeting, LeavesStrangersOut) {
  Job job;
  job.options.timeout = std::chrono::milliseconds(6000);
  job.stranger = [](int port) {
    const auto until = Clock::now() + std::chrono::seconds(2);
    const auto socket = connect_until({"127.0.0.1", port}, until);
    send_message(socket, {{"job", "another"}, {"rank", 1}}, until);
  };
  const auto view = job.run();
  EXPECT_EQ(view.tasks.size(), 3U);
  EXPECT_TRUE(view.absent.empty());
}

}  // namespace
}  // namespace lockstep
