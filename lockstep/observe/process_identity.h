// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Which process, so that another one can tell later, perhaps on another machine, whether it still lives.
struct ProcessIdentity {
  std::string host{};
  int pid = 0;
  std::uint64_t started = 0;    ///< In clock ticks since the boot: a process id is used again, this pair is not.
  std::string boot{};           ///< The kernel's boot id: names the machine where host names do not.
  std::string pid_namespace{};  ///< Within which `pid` is meant: a container may have its own.
  std::string job{};            ///< The scheduler's job id; empty outside a job.
  std::int64_t restarts = 0;    ///< How often the scheduler has requeued that job.

  /// This process, in the job that `env` tells of. What the system does not tell stays empty.
  static ProcessIdentity of_process(const Environment& env);

  /// "process 4711 on n1, job 56", for an error's fact.
  std::string described() const;

  std::string to_json() const;
  /// Nothing where `text` holds no whole identity.
  static std::optional<ProcessIdentity> from_json(std::string_view text);

  bool operator==(const ProcessIdentity&) const = default;
};

enum class Liveness { kAlive, kDead, kUnknown };

/// Whether `other` lives, as far as `self` can tell: exactly where both are on one machine and in one process-id
/// namespace; dead where it is an earlier start of the same job; else unknown.
Liveness liveness(const ProcessIdentity& other, const ProcessIdentity& self);

}  // namespace lockstep
