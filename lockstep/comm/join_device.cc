// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/join_device.h"

#include <algorithm>
#include <cstdlib>

#include "lockstep/base/checksum.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/log.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/comm/group_impl.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_sharing(const Group& group, const std::vector<int>& sharing) {
  std::vector<std::string> ranks;
  for (const int rank : sharing) ranks.push_back(std::to_string(rank));
  std::string fact = "ranks " + joined(ranks, ", ") + " compute on one device";
  const auto& at = group.placement();
  if (std::find(sharing.begin(), sharing.end(), group.rank()) != sharing.end()) {
    const auto& device = group.device();
    fact += ", " + device.description() + ": " + at.source + " started " + counted(at.local_world, "task") +
            " on this node, this one is local rank " + std::to_string(at.local_rank) + " and sees " +
            counted(device.visible, "device");
  }
  throw Error(ErrorKind::kEnvironment, fact,
              "start as many tasks on each node as it has devices, all seeing all of them (--gpus-per-node); or set "
              "trainer.share_device = true");
}

}  // namespace

Group::Impl::~Impl() {
  const bool has_failed = std::uncaught_exceptions() > exceptions_before;
  if (peers && !has_failed) peers->end_well();
  if (between_devices && !has_failed) device.backend->collectives()->end(*between_devices, /*has_failed=*/false);
  if (between_devices && has_failed) end_between_devices("an error ended this rank");
  if (!device_end) return;
  // The process group owns the same collectives. Their threads end when the last owner is destroyed.
  const TimeLimit in_time(ends_within, leave_process());
  between_devices.reset();
  device_end.reset();
  peers.reset();
  gloo.reset();
  process.reset();
}

// The caller's exception is never printed, since the code that would print it waits too. So the message is written
// here.
std::function<void()> Group::Impl::leave_process() const {
  return [reason = end_reason, rank = placement.rank, limit = ends_within] {
    Log(2, "lockstep: [rank " + std::to_string(rank) + "] ")
        .error(reason + "; what talks between devices has not ended within " +
               fixed(std::chrono::duration<double>(limit).count(), 0) + " s, so this process ends");
    std::_Exit(exit_code(ErrorKind::kPeer));
  };
}

void Group::Impl::end_between_devices(const std::string& reason) {
  if (!between_devices) return;
  end_reason = reason;
  device_end = std::make_unique<DeviceEnd>(*device.backend->collectives(), std::exchange(between_devices, {}),
                                           ends_within, leave_process());
}

void Group::Impl::leave_devices() {
  if (process == nullptr || device.is_cpu()) return;
  end_between_devices("a rank was lost");
  const TimeLimit in_time(ends_within, leave_process());
  device_end.reset();
  device.backend->synchronize(device.index());
}

bool Group::shares_device() const { return is_connected() && !device().is_cpu() && !impl_->between_devices; }

// Kernels that wait for a peer stay on the device until their communicator is ended, and freeing device memory would
// wait for these kernels.
void Group::give_up_device(const std::string& fact) {
  if (impl_->peers) impl_->peers->leave(fact);
  impl_->end_between_devices(fact);
  throw_peer_error("talked from device to device", std::runtime_error(fact));
}

void Group::require_sound() {
  if (!impl_->between_devices) return;
  const auto failure = impl_->device.backend->collectives()->failure(*impl_->between_devices);
  if (failure) give_up_device(*failure);
}

void Group::await_device() {
  const auto& device = impl_->device;
  device.backend->synchronize(device.index(), watch());
  require_sound();
}

std::function<void()> Group::watch() {
  if (!impl_->between_devices) return {};
  return [this, start = Clock::now(), leaver = impl_->watch_for_leavers()] {
    require_sound();
    if (const auto reason = leaver(); !reason.empty()) give_up_device(reason);
    if (const auto reason = impl_->reason_of_lost_neighbour(); !reason.empty()) give_up_device(reason);
    if (impl_->rejoin && impl_->rejoin->is_over()) give_up_device("another rank of this run has died");
    if (Clock::now() - start < impl_->timeout) return;
    give_up_device(
        "the device has not done its step for " + fixed(seconds_between(start, Clock::now()), 0) +
        " s, as it does where another rank does not come to an exchange; trainer.collective_timeout sets the limit");
  };
}

// A PCI address alone does not identify a device: other nodes have the same addresses, and all slices of one device
// share one. An index does not either, since each process counts its own devices.
std::int64_t device_key(const std::string& machine, const DeviceFacts& device) {
  const auto named = device.pci + "\n" + device.uuid;
  return static_cast<std::int64_t>(xxh3_64(machine + "\n" + (named.size() > 1 ? named : std::to_string(device.index))));
}

std::vector<int> ranks_on_one_device(const std::vector<std::int64_t>& devices) {
  for (std::size_t first = 0; first < devices.size(); ++first) {
    std::vector<int> ranks;
    for (std::size_t rank = first; rank < devices.size(); ++rank) {
      if (devices[rank] == devices[first]) ranks.push_back(static_cast<int>(rank));
    }
    if (ranks.size() > 1) return ranks;
  }
  return {};
}

// Every rank takes part, on any device. A rank on a CPU among others on GPUs must not leave these waiting.
void connect_devices(Group& group, bool may_share, std::chrono::milliseconds timeout) {
  auto& impl = group.impl();
  impl.timeout = timeout;
  const bool has_device = !impl.device.is_cpu();
  const auto with_device = group.all_gather(has_device ? 1 : 0);
  const auto first_without = std::find(with_device.begin(), with_device.end(), 0);
  if (first_without != with_device.end()) {
    const auto first_with = std::find(with_device.begin(), with_device.end(), 1);
    if (first_with == with_device.end()) return;
    throw Error(ErrorKind::kEnvironment,
                "rank " + std::to_string(first_without - with_device.begin()) + " computes on its CPU, rank " +
                    std::to_string(first_with - with_device.begin()) + " on a GPU",
                "start all ranks on nodes with GPUs, or set trainer.accelerator = \"cpu\"");
  }
  const auto machine = text_or_nothing("/proc/sys/kernel/random/boot_id");
  const auto sharing = ranks_on_one_device(group.all_gather(device_key(machine, impl.device.facts)));
  if (!sharing.empty()) {
    if (!may_share) refuse_sharing(group, sharing);
    // NCCL refuses two ranks on one device. Gloo copies through the host, for every rank alike.
    impl.process->setBackend(impl.device.device.type(), c10d::ProcessGroup::BackendType::GLOO,
                             impl.process->getBackend(c10::DeviceType::CPU));
    return;
  }
  as_peer_error("connected their devices", [&] {
    impl.between_devices = impl.device.backend->collectives()->make({.store = impl.store,
                                                                     .rank = group.rank(),
                                                                     .world = group.world(),
                                                                     .device = impl.device.device,
                                                                     .timeout = timeout});
    // A rank that can rejoin learns of a death from the store.
    if (impl.gloo) impl.peers = std::make_unique<PeerWatch>(*impl.gloo);
  });
  impl.process->setBackend(impl.device.device.type(), c10d::ProcessGroup::BackendType::NCCL, impl.between_devices);
  impl.process->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
}

}  // namespace lockstep
