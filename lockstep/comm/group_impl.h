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
#include "lockstep/comm/group.h"
#include "lockstep/comm/rejoin.h"
#include "lockstep/launch/stop_signals.h"

namespace lockstep {

/// The state of a stop request for the user's own loop.
struct StopWatch {
  StopSignals signals{};
  JobClock clock{};
  bool is_agreed = false;

  /// True if this rank was asked.
  bool is_asked() const;
};

/// For sources of comm/ only. Members are destroyed in reverse. The communication between devices goes first, then the
/// process group, then the store that its threads use.
struct Group::Impl {
  Placement placement;
  RankDevice device{};
  std::chrono::milliseconds timeout{};                  ///< For one collective.
  c10::intrusive_ptr<c10d::Store> store{};              ///< Null for a rank alone.
  c10::intrusive_ptr<c10d::ProcessGroup> process{};     ///< Null for a rank alone.
  c10::intrusive_ptr<c10d::Backend> between_devices{};  ///< Null on CPUs, and if Gloo serves a shared device.
  std::unique_ptr<DeviceEnd> device_end{};              ///< Once they have failed.
  std::string end_reason{};                             ///< Why.
  std::chrono::milliseconds ends_within{30'000};        ///< A failed collective ends within this time, or the process
                                                        ///< does.
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

  /// Does the same as as_peer_error(). The error also gives the reason of a rank that has left, see lose_peer().
  template <typename Work>
  auto talk(std::string_view action, Work&& work) -> decltype(work());

  /// Throws Error(kPeer) for a connection that broke or timed out. It gives the reason of the rank that left first, if
  /// one has. It names the setting of the time limit if that has passed. Blocks: at most for some seconds.
  [[noreturn]] void lose_peer(std::string_view action, const std::exception& error);

  /// Ends what talks between devices, if anything does, and returns at once. The process ends with the code of
  /// Error(kPeer) and says `reason` if that takes longer than `ends_within`.
  void end_between_devices(const std::string& reason);
  std::function<void()> leave_process() const;

  /// Throws: Error(kUsage) if this rank has left.
  void require_member() const;
};

/// True if the parent of this rank starts it again when it dies, and this LibTorch lets the others meet it again.
bool can_be_replaced(const Group::Impl& impl, const Environment& env);

/// Calls `work`, which must run c10d's code alone. An exception of the transport becomes Error(kPeer) that names
/// `action`. Others pass through.
template <typename Work>
auto as_peer_error(std::string_view action, Work&& work) -> decltype(work());

/// True if the exception is of one of the types that c10d and Gloo throw for a connection that broke or timed out. It
/// serves if a model's own code may have thrown it.
bool is_of_transport(const std::exception& error);

/// True if is_of_transport(), or if the text says so. c10d's code also throws exceptions of general types, so this is
/// only for exceptions that came from c10d alone.
bool is_transport_failure(const std::exception& error);

/// Returns what an exception says, without the stack that LibTorch puts below its own.
std::string words(const std::exception& error);

[[noreturn]] void throw_peer_error(std::string_view action, const std::exception& error);

/// True if a collective took longer than it may.
bool is_timeout(const std::exception& error);

/// Calls `work`. A failure of the transport goes to `fail`, which must throw. Other exceptions pass through.
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
