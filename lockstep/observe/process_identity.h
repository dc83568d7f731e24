// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Identifies a process, so that another one can tell later, perhaps on another machine, whether it still lives.
struct ProcessIdentity {
  std::string host{};
  int pid = 0;
  std::uint64_t started = 0;    ///< In clock ticks since the boot. A process id is used again, this pair is not.
  std::string boot{};           ///< The kernel's boot id. It identifies the machine even if host names do not.
  std::string pid_namespace{};  ///< The namespace of `pid`, since a container may have its own.
  std::string job{};            ///< The scheduler's job id. Empty outside a job.
  std::int64_t restarts = 0;    ///< Number of times that the scheduler has requeued that job.

  /// Identifies this process, in the job that `env` describes. Facts that the system does not report stay empty.
  static ProcessIdentity of_process(const Environment& env);

  /// Returns a text such as "process 4711 on n1, job 56", for the fact of an error.
  std::string described() const;

  std::string to_json() const;
  /// Parses an identity. Returns nothing if `text` is not a complete one.
  static std::optional<ProcessIdentity> from_json(std::string_view text);

  bool operator==(const ProcessIdentity&) const = default;
};

enum class Liveness { kAlive, kDead, kUnknown };

/// Returns whether `other` lives, as far as `self` can tell. The answer is exact if both are on one machine and in one
/// process-id namespace. A process of an earlier start of the same job is dead. In all other cases the answer is
/// unknown.
Liveness liveness(const ProcessIdentity& other, const ProcessIdentity& self);

}  // namespace lockstep
