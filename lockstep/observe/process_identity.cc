// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/process_identity.h"

#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

// Fields of /proc/PID/stat. The state is the third, the start time the 22nd. The second field is the program's name,
// which may have any character.
struct ProcessStat {
  std::string state;
  std::uint64_t started = 0;
};

std::optional<std::string> system_text(const std::string& path) {
  try {
    return std::string(trimmed(text_of_file(path)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<ProcessStat> stat_of(int pid) {
  const auto text = system_text("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return std::nullopt;
  const auto name_end = text->rfind(')');
  if (name_end == std::string::npos || name_end + 2 > text->size()) return std::nullopt;
  const auto fields = split(std::string_view(*text).substr(name_end + 2), ' ');
  if (fields.size() < 20) return std::nullopt;
  return ProcessStat{fields[0], parsed_int<std::uint64_t>(fields[19]).value_or(0)};
}

}  // namespace

ProcessIdentity ProcessIdentity::of_process(const Environment& env) {
  ProcessIdentity self;
  self.host = host_name();
  self.pid = static_cast<int>(::getpid());
  if (const auto stat = stat_of(self.pid)) self.started = stat->started;
  self.boot = system_text("/proc/sys/kernel/random/boot_id").value_or("");
  std::array<char, 64> link{};
  if (::readlink("/proc/self/ns/pid", link.data(), link.size() - 1) > 0) self.pid_namespace = link.data();
  self.job = env.get("SLURM_JOB_ID").value_or("");
  self.restarts = parsed_int<std::int64_t>(env.get("SLURM_RESTART_COUNT").value_or("0")).value_or(0);
  return self;
}

std::string ProcessIdentity::described() const {
  return "process " + std::to_string(pid) + " on " + (host.empty() ? "an unnamed host" : host) +
         (job.empty() ? "" : ", job " + job);
}

std::string ProcessIdentity::to_json() const {
  const nlohmann::ordered_json object{
      {"host", host}, {"pid", pid},          {"started", started}, {"boot", boot}, {"pid_namespace", pid_namespace},
      {"job", job},   {"restarts", restarts}};
  return json_text(object);
}

std::optional<ProcessIdentity> ProcessIdentity::from_json(std::string_view text) {
  const auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  try {
    return ProcessIdentity{.host = object.at("host"),
                           .pid = object.at("pid"),
                           .started = object.at("started"),
                           .boot = object.at("boot"),
                           .pid_namespace = object.at("pid_namespace"),
                           .job = object.at("job"),
                           .restarts = object.at("restarts")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

Liveness liveness(const ProcessIdentity& other, const ProcessIdentity& self) {
  // The scheduler starts a job again only after the earlier start has ended, so a process of that start is dead.
  if (!self.job.empty() && other.job == self.job && other.restarts < self.restarts) return Liveness::kDead;
  const bool same_machine = !self.boot.empty() && other.boot == self.boot;
  if (!same_machine || self.pid_namespace.empty() || other.pid_namespace != self.pid_namespace) {
    return Liveness::kUnknown;
  }
  const auto stat = stat_of(other.pid);
  const bool lives = stat && stat->started == other.started && stat->state != "Z" && stat->state != "X";
  return lives ? Liveness::kAlive : Liveness::kDead;
}

}  // namespace lockstep
