// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/task/exec_task.h"
#include "lockstep/cluster/task/lost_task.h"
#include "lockstep/launch/attended.h"
#include "lockstep/launch/healing.h"
#include "lockstep/store/client.h"
#include "lockstep/store/secret.h"
#include "lockstep/store/server.h"
#include "lockstep/watch/rank_memory.h"

namespace lockstep {

/// Reads the text of `exec --heal`, such as "100:120", which is the most healings of the run and the window in seconds.
///
/// Throws: Error(kUsage) if the text is not of this form.
HealingLimits parsed_healing(const std::string& text);

/// Starts the training process of one task again if it dies. The processes of the other tasks wait for it.
///
/// The parent of rank 0 serves the run's store, since it outlives the training. Each task's parent holds the memory
/// that outlives its process.
class TaskHealing {
 public:
  /// Throws: Error(kEnvironment) if there is no memory, or if rank 0's port cannot be bound; Error(kIo) if the run's
  ///         secret cannot be made.
  TaskHealing(const ExecTask& task, const HealingLimits& limits, const Log& log);
  ~TaskHealing();
  TaskHealing(const TaskHealing&) = delete;
  TaskHealing& operator=(const TaskHealing&) = delete;

  /// Returns `env` with the variables by which the task's program finds the store and its memory.
  Environment with_variables(const Environment& env) const;

  /// Returns true if the program should be started again after this end. The other ranks then leave their collectives,
  /// and with_variables() tells the new process where to meet them.
  bool heals(const ProgramEnd& end);
  /// Call it each second. It opens a connection to the store that stays open. If this process is lost with its node,
  /// the store then knows at once that nobody will start the task again.
  void look() noexcept;
  /// Call it if the program has ended and is not started again. From then on no other rank is started again either,
  /// since it would wait for this one in vain.
  void note_end() noexcept;
  /// Returns the tasks that were lost with their parents. Call it last, in rank 0's task. Returns nothing in another
  /// one.
  ///
  /// Blocks: if a task was lost, until all others have ended, since these may still save; for 300 s at most, after
  /// which
  ///         srun ends the step by itself (`--wait`), and nothing is returned.
  std::vector<LostTask> lost_tasks() noexcept;

 private:
  StoreIdentity identity() const;
  StoreClient connected(Clock::time_point until) const;
  bool has_anyone_ended();

  const Placement& at_;
  const std::string& node_;
  Endpoint master_;
  const Log& log_;
  Healing healing_;
  SharedRankMemory memory_;
  SecretFile secret_;
  std::unique_ptr<StoreServer> server_;  ///< On rank 0.
  std::optional<StoreClient> presence_;  ///< Its end tells the others that this process is lost.
  std::uint32_t generation_ = 0;         ///< The generation in which the next process begins. 0 for the first process.
};

}  // namespace lockstep
