// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "lockstep/base/job_clock.h"
#include "lockstep/comm/collective_maker.h"
#include "lockstep/comm/device_end.h"
#include "lockstep/comm/gloo/peer_watch.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/rejoin.h"
#include "lockstep/launch/stop_signals.h"

namespace lockstep {

/// The state of a stop request, for Group::stop_requested().
struct StopWatch {
  StopSignals signals{};
  JobClock clock{};
  bool is_agreed = false;

  /// True if this rank was asked to stop.
  bool is_asked() const;
};

/// The members of a Group. Only sources in comm/ include this header. Members are destroyed in reverse order: first the
/// communication between devices, then the process group, and last the store, which the process group's threads use.
struct Group::Impl {
  Placement placement;
  RankDevice device{};
  std::chrono::milliseconds timeout{};                  ///< For one collective.
  bool may_share_device = false;                        ///< JoinOptions::share_device
  c10::intrusive_ptr<c10d::Store> store{};              ///< Null for a rank alone.
  c10::intrusive_ptr<c10d::ProcessGroup> process{};     ///< Null for a rank alone.
  c10::intrusive_ptr<c10d::Backend> gloo{};             ///< Of `process`. Null for a rank alone, or if `rejoin` is set,
                                                        ///< which closes connections itself.
  std::unique_ptr<PeerWatch> peers{};                   ///< Null where no rank waits for a device, or `rejoin` is set.
  c10::intrusive_ptr<c10d::Backend> between_devices{};  ///< Null on CPUs, and if Gloo serves a shared device.
  std::unique_ptr<DeviceEnd> device_end{};              ///< Once they have failed.
  std::string end_reason{};                             ///< Why.
  std::chrono::milliseconds ends_within{30'000};        ///< A failed collective ends within this time, or the process
                                                        ///< does.
  std::chrono::milliseconds asks_store_every{1000};     ///< While it waits for the device.
  int exceptions_before = std::uncaught_exceptions();
  std::string left{};                 ///< Why this rank has left its peers. Empty while it has not.
  int failures = 0;                   ///< Calls of leave_on_failure() that threw here.
  std::unique_ptr<StopWatch> stop{};  ///< Once stop_requested() was called.
  bool has_parallel = false;          ///< A DistributedDataParallel was made over it.
  std::unique_ptr<Rejoin> rejoin{};   ///< Null if a dead rank of this run is not replaced.

  Impl() = default;
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Calls `work` as as_peer_error() does. The error also has the reason of a rank that has left, see lose_peer().
  template <typename Work>
  auto talk(std::string_view action, Work&& work) -> decltype(work());

  /// Throws Error(kPeer) for a connection that broke or timed out. If a rank has left, the message has the reason of
  /// the first one that did. If the time limit has passed, the message names its setting. Blocks: at most for some
  /// seconds.
  [[noreturn]] void lose_peer(std::string_view action, const std::exception& error);

  /// Starts to end the communication between devices, if there is any, and returns at once. If that takes longer than
  /// `ends_within`, the process prints `reason` and exits with the code of Error(kPeer).
  void end_between_devices(const std::string& reason);
  std::function<void()> leave_process() const;

  /// Ends the communication between devices, if there is any, and waits until the device has done what was left of it.
  /// Blocks: for `ends_within` at most. Then the process exits as in end_between_devices().
  void leave_devices();

  /// Destroys the process group. Blocks: for some seconds at most. If a thread of Gloo's does not end, a thread of its
  /// own waits for that.
  void drop_process();

  /// Returns a function that returns the reason of a rank that has left, or empty text. To find it, it asks the store
  /// in a thread of its own, so it never waits.
  std::function<std::string()> watch_for_leavers() const;

  /// Tells all ranks through the store that the connections to the ranks `lost` have closed, and returns this as the
  /// reason. If a rank has left before, it returns that rank's reason. Blocks: for some seconds at most.
  std::string tell_of_lost(const std::vector<int>& lost) const;

  /// Returns why a neighbour that `peers` watches is lost, or empty text if none is.
  std::string reason_of_lost_neighbour() const;

  /// Returns why a rank has left or is lost, or empty text if none is known to be. Blocks: for some seconds at most.
  std::string reason_seen() const;

  /// Returns why a collective has failed, or empty text if no rank has left or is lost. Blocks: for some seconds at
  /// most.
  std::string reason_of_loss() const;

  /// Throws: Error(kUsage) if this rank has left.
  void require_member() const;
};

/// True if the parent of this rank starts it again if it dies, and this LibTorch lets the other ranks connect to it.
bool can_be_replaced(const Group::Impl& impl, const Environment& env);

/// Calls `work`, which must run only c10d's code. An exception about a broken connection becomes an Error(kPeer) that
/// names `action`. Other exceptions pass through.
template <typename Work>
auto as_peer_error(std::string_view action, Work&& work) -> decltype(work());

/// True if the exception is of one of the types that c10d and Gloo throw for a connection that broke or timed out. Use
/// this function if a model's own code may have thrown the exception.
bool is_of_transport(const std::exception& error);

/// True if is_of_transport() is, or if the exception's text names a broken connection. Use this function only for
/// exceptions of c10d's own code, which also throws general types.
bool is_transport_failure(const std::exception& error);

/// Returns an exception's message, without the stack trace that LibTorch appends to its own exceptions.
std::string words(const std::exception& error);

[[noreturn]] void throw_peer_error(std::string_view action, const std::exception& error);

/// True if the exception says that a collective took longer than its time limit.
bool is_timeout(const std::exception& error);

/// Calls `work`. If a connection fails, it calls `fail` with the exception, and `fail` must throw. Other exceptions
/// pass through.
template <typename Work, typename Fail>
auto over_transport(Work&& work, Fail&& fail) -> decltype(work()) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!is_transport_failure(error)) throw;
    fail(error);
    throw;
  }
}

template <typename Work>
auto Group::Impl::talk(std::string_view action, Work&& work) -> decltype(work()) {
  require_member();
  return over_transport(std::forward<Work>(work), [&](const std::exception& error) { lose_peer(action, error); });
}

template <typename Work>
auto as_peer_error(std::string_view action, Work&& work) -> decltype(work()) {
  return over_transport(std::forward<Work>(work),
                        [&](const std::exception& error) { throw_peer_error(action, error); });
}

}  // namespace lockstep
