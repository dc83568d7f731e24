// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/observe/events.h"
#include "lockstep/observe/requests.h"
#include "lockstep/watch/rank_watch.h"

namespace lockstep {

/// Looks for requests to a running training once a second, on its own thread, and answers them. Rank 0 has one. If no
/// parent watches the ranks, it also answers for rank 0 what `lockstep why` asks.
///
/// Requests from before this object was made are refused, since they were meant for an earlier start of the run.
///
/// Threads: only the training thread may call this. wants_stop() and wants_save() are one atomic read.
class RequestWatch {
 public:
  explicit RequestWatch(std::filesystem::path run_dir);
  /// Answers the requests that are still open, since the training has ended.
  ~RequestWatch();
  RequestWatch(const RequestWatch&) = delete;
  RequestWatch& operator=(const RequestWatch&) = delete;

  /// True once somebody has asked for a stop.
  bool wants_stop() const { return wants_stop_; }
  /// True if somebody has asked for a snapshot, and no save has begun since.
  bool wants_save() const { return wants_save_; }

  /// Call it when the save of a snapshot begins, after step `step`. The save serves all requests for a snapshot that
  /// were seen so far. A later request waits for the next save.
  void begin_save(std::int64_t step);
  /// Call it when a snapshot is complete on disk. This answers the requests that the snapshot serves.
  void written(const SnapshotWritten& snapshot);

 private:
  struct Open {
    Request request;
    std::optional<std::int64_t> step{};  ///< Of the save that serves it.
  };

  void run();
  void look();
  void answer_all();
  void answer_why();
  void answer(const Request& request, const nlohmann::json& answer) const;
  nlohmann::json done() const;

  const std::filesystem::path run_dir_;
  const bool is_alone_;  ///< No parent watches this rank, so this thread says what it does.
  RankWatch watch_;      ///< Of this thread.
  std::atomic<bool> wants_stop_ = false;
  std::atomic<bool> wants_save_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Open> open_;                 ///< Seen, and not answered for good.
  std::optional<SnapshotWritten> newest_;  ///< The newest snapshot of this start.
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace lockstep
