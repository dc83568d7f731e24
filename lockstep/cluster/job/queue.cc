// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/queue.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/cache_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/profile/slurm_config.h"
#include "lockstep/launch/slurm_tool.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Returns the text of the file `path` if it was written less than `age` ago, and after the time `since`.
std::optional<std::string> fresh_text(const fs::path& path, std::chrono::seconds age, std::int64_t since) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  const auto written = std::chrono::system_clock::from_time_t(status.st_mtime);
  const auto now = std::chrono::system_clock::now();
  if (now < written || now - written >= age || status.st_mtime <= since) return std::nullopt;
  try {
    return text_of_file(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Returns a name of the cluster that costs no question to Slurm: the one in its configuration, or else the login
/// nodes' name, such as "login.site.org" on login3.site.org.
std::string cheap_cluster_name(const Environment& env) {
  if (auto name = known_slurm_cluster_name(env); !name.empty()) return name;
  auto host = host_name();
  const auto end = std::min(host.find('.'), host.size());
  const auto letter = host.substr(0, end).find_last_not_of("0123456789");
  const auto begin = letter == std::string::npos ? 0 : letter + 1;
  return host.erase(begin, end - begin);
}

/// Returns 4 for "gpu:a100:4(S:0-1),tmp:1", the number of devices in a node's generic resources. Source: sinfo(1), %G.
int devices_of(const std::string& resources) {
  int all = 0;
  std::string outside;  // A list of sockets in parentheses may hold commas.
  int depth = 0;
  for (const char c : resources) {
    depth += c == '(' ? 1 : 0;
    if (depth == 0) outside += c;
    depth -= c == ')' ? 1 : 0;
  }
  for (const auto& each : split(outside, ',')) {
    const auto words = split(each, ':');
    if (words.front() == "gpu") all += parsed_int<int>(words.back()).value_or(words.size() == 1 ? 1 : 0);
  }
  return all;
}

}  // namespace

SlurmQueue::SlurmQueue(const Environment& env) : env_(env) {
  // A user may work with several clusters, also from one home, so the answer of each has a file of its own.
  std::string name = "queue-" + cheap_cluster_name(env);
  for (const auto* variable : {"SLURM_CLUSTERS", "SLURM_CONF"}) name += "-" + env.get(variable).value_or("");
  std::ranges::replace(name, '/', '-');
  kept_ = cache_folder(env) / name;
}

QueuedJobs SlurmQueue::jobs(std::int64_t since) const {
  if (const auto text = fresh_text(kept_, kQueueAge, since)) {
    auto jobs = parsed_queue(*text);
    const auto is_ending = [](const auto& each) { return each.second.state == "COMPLETING"; };
    if (std::ranges::none_of(jobs, is_ending)) return jobs;
  }
  const auto asked = run_slurm_tool({"squeue", "--me", "--noheader", "--format=%i|%T|%r|%S"}, env_);
  if (asked.exit_code != 0) {
    throw Error(ErrorKind::kEnvironment, "squeue does not answer: " + std::string(trimmed(asked.errors)),
                "ask from a login node of the cluster, and again in a while");
  }
  try {
    make_folder(kept_.parent_path());
    write_whole(kept_, asked.output, false);
  } catch (const Error&) {
    // If the answer cannot be stored, it is still returned.
  }
  return parsed_queue(asked.output);
}

void SlurmQueue::forget() const { ::unlink(kept_.c_str()); }

bool QueuePoll::ask(std::int64_t since) {
  try {
    jobs_ = queue_.jobs(since);
    has_answered_ = true;
    return true;
  } catch (const Error& error) {
    if (!has_answered_) throw;
    if (!std::exchange(has_warned_, true)) log_.warning(std::string(error.fact()) + "; asks again");
    return false;
  }
}

std::optional<SlurmNode> node_with_devices(const std::string& partition, const Environment& env) {
  std::vector<std::string> command = {"timeout", "10", "sinfo", "--noheader", "--format=%P|%c|%G"};
  if (!partition.empty()) command.push_back("--partition=" + partition);
  const auto asked = run_slurm_tool(command, env);
  return asked.exit_code == 0 ? parsed_nodes(asked.output, partition) : std::nullopt;
}

std::string nodes_have(const std::string& partition, const Environment& env) {
  const auto node = node_with_devices(partition, env);
  if (!node) return {};
  return "; the nodes here have " + std::to_string(node->devices) + " devices and " + std::to_string(node->cores) +
         " CPUs: --devices " + std::to_string(node->devices) + " asks for them all";
}

std::optional<SlurmNode> parsed_nodes(std::string_view text, const std::string& partition) {
  std::optional<SlurmNode> least;
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(trimmed(line), '|');
    if (fields.size() != 3) continue;
    // sinfo marks the default partition with a star, and a number with a plus if it differs between nodes. Both marks
    // are removed.
    const bool is_meant =
        partition.empty() ? fields[0].ends_with('*') : fields[0] == partition || fields[0] == partition + "*";
    const auto cores = parsed_int<int>(fields[1].substr(0, fields[1].find('+')));
    const auto devices = devices_of(fields[2]);
    if (!is_meant || !cores || devices == 0) continue;
    if (!least || *cores / devices < least->cores / least->devices) least = SlurmNode{*cores, devices};
  }
  return least;
}

std::string job_state(const std::string& shown) {
  return shown == "SIGNALING" || shown == "RESIZING" ? "RUNNING" : shown;
}

QueuedJobs parsed_queue(std::string_view text) {
  QueuedJobs jobs;
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(trimmed(line), '|');
    if (fields.size() == 4) jobs[fields[0]] = {.state = job_state(fields[1]), .reason = fields[2], .start = fields[3]};
  }
  return jobs;
}

}  // namespace lockstep
