// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/meeting.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/cluster/doctor/nodes.h"
#include "lockstep/cluster/doctor/report.h"
#include "lockstep/cluster/doctor/wire.h"
#include "lockstep/launch/socket.h"

namespace lockstep {
namespace {

constexpr int kMostTasks = 512;
constexpr int kClockQuestions = 5;
constexpr std::chrono::seconds kHello{1};  // A stranger that says nothing must not hold up the others.

using nlohmann::json;
using Value = std::uint64_t;

json json_of_view(const TaskReport& view, const std::string& job, int link_port) {
  json object = {{"job", job},
                 {"rank", view.rank},
                 {"node_rank", view.node_rank},
                 {"host", view.host},
                 {"device", view.device},
                 {"cpus", view.cpus},
                 {"cores", view.cores},
                 {"versions", view.versions},
                 {"link_port", link_port},
                 {"findings", json::array()}};
  for (const auto& finding : view.findings) object["findings"].push_back(json_of(finding));
  return object;
}

TaskReport view_of(const json& object) {
  TaskReport view{.rank = object.at("rank"),
                  .node_rank = object.at("node_rank"),
                  .host = object.at("host"),
                  .device = object.at("device"),
                  .cpus = object.at("cpus"),
                  .cores = object.at("cores"),
                  .versions = object.at("versions")};
  for (const auto& finding : object.at("findings")) view.findings.push_back(finding_of(finding));
  return view;
}

double seconds_of(const WallClock& wall) { return std::chrono::duration<double>(wall().time_since_epoch()).count(); }

/// One node's position in the ring of all nodes, and its two neighbours.
struct RingPlace {
  std::size_t index = 0;
  std::size_t count = 1;
  Endpoint next{};
};

/// The measurements of one node.
struct RingResult {
  double bytes_per_second = 0;  ///< Of what came from the node before.
  bool is_right = false;
  std::string failure{};  ///< Empty if it succeeded.
};

std::span<std::byte> bytes_of(std::span<Value> values) { return std::as_writable_bytes(values); }

/// Returns the numbers that a node contributes to the sum. They differ for each node and position, and are so small
/// that no sum overflows.
Value brought(std::size_t node, std::size_t place) { return (node + 1) * (place % 1000 + 1); }

/// Makes the usual ring all-reduce. Each part goes round the ring twice: once to be summed, and once to be distributed.
/// Source: Patarasuk and Yuan 2009.
std::vector<Value> ring_sum(const RingPlace& at, const FileDescriptor& next, const FileDescriptor& prev,
                            std::size_t elements, Deadline until) {
  std::vector<Value> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = brought(at.index, i);
  const auto part = [&](std::size_t index) {
    const std::size_t begin = elements * (index % at.count) / at.count;
    const std::size_t end = elements * (index % at.count + 1) / at.count;
    return std::span(values).subspan(begin, end - begin);
  };
  std::vector<Value> incoming(elements / at.count + 1);
  for (std::size_t step = 0; step + 1 < at.count; ++step) {
    const auto target = part(at.index + 2 * at.count - step - 1);
    const auto in = std::span(incoming).first(target.size());
    exchange(next, bytes_of(part(at.index + 2 * at.count - step)), prev, bytes_of(in), until);
    std::transform(target.begin(), target.end(), in.begin(), target.begin(), std::plus{});
  }
  for (std::size_t step = 0; step + 1 < at.count; ++step) {
    exchange(next, bytes_of(part(at.index + 2 * at.count + 1 - step)), prev,
             bytes_of(part(at.index + 2 * at.count - step)), until);
  }
  return values;
}

bool is_right_sum(const std::vector<Value>& values, std::size_t nodes) {
  const Value factor = nodes * (nodes + 1) / 2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != factor * brought(0, i)) return false;
  }
  return true;
}

RingResult went_round(const RingPlace& at, const FileDescriptor& listener, const MeetingOptions& options,
                      Deadline until) {
  RingResult result;
  std::string stage = "connecting to " + at.next.address;
  try {
    const auto next = connect_until(at.next, until);
    const auto prev = accept_connection(listener, until);
    stage = "waiting for the node before";
    if (!prev) throw Error(ErrorKind::kPeer, "nobody came", "");
    stage = "timing the link";
    const std::vector<std::byte> out(options.link_bytes);
    std::vector<std::byte> in(options.link_bytes);
    const double seconds = exchange(next, out, prev, in, until);
    result.bytes_per_second = static_cast<double>(options.link_bytes) / std::max(seconds, 1e-6);
    stage = "summing";
    result.is_right = is_right_sum(ring_sum(at, next, prev, options.sum_elements, until), at.count);
  } catch (const Error&) {
    result.failure = stage;
  }
  return result;
}

void answer_clock(const FileDescriptor& main, const WallClock& wall, Deadline until) {
  for (int i = 0; i < kClockQuestions; ++i) {
    received_message(main, until);
    send_message(main, {{"time", seconds_of(wall)}}, until);
  }
}

/// One of the others.
void attend(const Placement& at, const Endpoint& main_end, const TaskReport& self, const MeetingOptions& options,
            Deadline until) {
  FileDescriptor listener;
  if (at.local_rank == 0) listener = listen_on(0);
  const auto main = connect_until(main_end, until);
  send_message(main, json_of_view(self, at.job, listener ? port_of(listener) : 0), until);
  if (!listener) return;
  answer_clock(main, options.wall, until);
  const auto plan = received_message(main, until);
  if (plan.at("count") == 1) return;
  const RingPlace place{
      .index = plan.at("index"), .count = plan.at("count"), .next = {plan.at("address"), plan.at("port")}};
  const auto result = went_round(place, listener, options, until);
  send_message(main, {{"rate", result.bytes_per_second}, {"is_right", result.is_right}, {"failure", result.failure}},
               until + std::chrono::milliseconds(500));
}

/// One node, as rank 0 sees it.
struct Node {
  std::string host{};
  FileDescriptor control{};  ///< Empty for rank 0's own.
  Endpoint link{};
};

class Host {
 public:
  Host(const Placement& at, const MeetingOptions& options, Deadline until)
      : at_(at), options_(options), until_(until), ring_(listen_on(0)) {}

  JobReport run(const Endpoint& main, const TaskReport& self) {
    job_.tasks.push_back(self);
    nodes_[self.node_rank] = {.host = self.host, .link = {main.address, port_of(ring_)}};
    gather(main);
    ask_clocks();
    go_round();
    return std::move(job_);
  }

 private:
  int expected() const { return at_.world <= kMostTasks ? at_.world : at_.nodes; }

  void gather(const Endpoint& main) {
    const auto listener = listen_on(main.port);
    const auto half = Clock::now() + (until_ - Clock::now()) / 2;
    while (static_cast<int>(job_.tasks.size()) < expected()) {
      auto socket = accept_connection(listener, half);
      if (!socket) break;
      try {
        take(std::move(socket), std::min(half, Clock::now() + kHello));
      } catch (const std::exception&) {
        continue;  // A stranger, or a task that left: it counts as absent.
      }
    }
    std::vector<bool> came(static_cast<std::size_t>(at_.world));
    for (const auto& task : job_.tasks) came.at(static_cast<std::size_t>(task.rank)) = true;
    for (int rank = 0; rank < at_.world && at_.world <= kMostTasks; ++rank) {
      if (!came[static_cast<std::size_t>(rank)]) job_.absent.push_back(rank);
    }
    for (int node = 0; node < at_.nodes && at_.world > kMostTasks; ++node) {
      if (!nodes_.contains(node)) job_.absent.push_back(node * at_.local_world);
    }
  }

  void take(FileDescriptor socket, Deadline until) {
    const auto hello = received_message(socket, until);
    if (hello.at("job") != at_.job) return;
    const auto view = view_of(hello);
    if (view.rank <= 0 || view.rank >= at_.world) return;
    const int port = hello.at("link_port");
    if (port > 0) {
      const Endpoint link{peer_address(socket), port};
      nodes_[view.node_rank] = {.host = view.host, .control = std::move(socket), .link = link};
    }
    job_.tasks.push_back(view);
  }

  void ask_clocks() {
    for (auto& [rank, node] : nodes_) {
      if (!node.control) continue;
      ClockView best{.host = node.host, .ahead_s = 0, .uncertain_s = 1e9};
      try {
        for (int i = 0; i < kClockQuestions; ++i) {
          const auto asked = Clock::now();
          const double before = seconds_of(options_.wall);
          send_message(node.control, {{"ask", "time"}}, until_);
          const double theirs = received_message(node.control, until_).at("time");
          const double half = seconds_between(asked, Clock::now()) / 2;
          if (half < best.uncertain_s) best = {node.host, theirs - (before + half), half};
        }
        job_.clocks.push_back(best);
      } catch (const std::exception&) {
        job_.broken.push_back(node.host + " (left while it was asked for its time)");
        node.control.reset();
      }
    }
  }

  void go_round() {
    std::vector<Node*> ring;
    for (auto& [rank, node] : nodes_) {
      if (rank == at_.node_rank || node.control) ring.push_back(&node);
    }
    const auto until = until_ - std::chrono::milliseconds(500);
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const auto& next = ring[(i + 1) % ring.size()]->link;
      if (!ring[i]->control) continue;
      try_send(*ring[i], {{"index", i}, {"count", ring.size()}, {"address", next.address}, {"port", next.port}});
    }
    if (ring.size() < 2) return;
    const auto self = static_cast<std::size_t>(
        std::ranges::find_if(ring, [](const Node* node) { return !node->control; }) - ring.begin());
    const auto own = went_round({self, ring.size(), ring[(self + 1) % ring.size()]->link}, ring_, options_, until);
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const auto& before = *ring[(i + ring.size() - 1) % ring.size()];
      note(*ring[i], before, i == self ? own : told_by(*ring[i]));
    }
  }

  void try_send(Node& node, const json& message) {
    try {
      send_message(node.control, message, until_);
    } catch (const Error&) {
      // A lost connection is ignored here. Rank 0 reports this node as one that did not answer.
    }
  }

  RingResult told_by(const Node& node) {
    try {
      const auto report = received_message(node.control, until_);
      return {report.at("rate"), report.at("is_right"), report.at("failure")};
    } catch (const std::exception&) {
      return {.failure = "no word from it"};
    }
  }

  void note(const Node& node, const Node& before, const RingResult& result) {
    if (result.bytes_per_second > 0) job_.links.push_back({before.host, node.host, result.bytes_per_second});
    if (!result.failure.empty()) {
      job_.broken.push_back(node.host + " (" + result.failure + ")");
    } else if (!result.is_right) {
      job_.wrong.push_back(node.host);
    }
  }

  const Placement& at_;
  const MeetingOptions& options_;
  Deadline until_;
  FileDescriptor ring_;
  JobReport job_;
  std::map<int, Node> nodes_;  ///< By node_rank.
};

void allow_connections() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

bool joins(const Placement& at) { return at.world <= kMostTasks || at.local_rank == 0; }

std::optional<JobReport> meeting(const Placement& at, const Endpoint& main, const TaskReport& self,
                                 const MeetingOptions& options) {
  const auto until = Clock::now() + options.timeout;
  if (at.rank == 0) {
    allow_connections();
    return Host(at, options, until).run(main, self);
  }
  attend(at, main, self, options, until - std::chrono::milliseconds(500));
  return std::nullopt;
}

}  // namespace lockstep
