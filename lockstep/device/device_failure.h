// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/device/device.h"

namespace lockstep {

/// True if LibTorch threw `error` because memory was exhausted. TorchScript throws such an exception again as a
/// std::runtime_error, so its text counts too. False for an Error.
bool is_out_of_memory(const std::exception& error);

/// True if LibTorch threw `error` because a device failed or its memory was exhausted.
bool is_device_failure(const std::exception& error);

/// Converts an exception of LibTorch that a failed device caused to an Error(kEnvironment) that a user can act on.
/// Returns nothing for any other exception.
std::optional<Error> device_failure(const std::exception& error, const RankDevice& device);

/// Calls `work`. If the device fails, the exception is converted as device_error() does.
template <typename Work>
decltype(auto) naming_device_failures(const RankDevice& device, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (const auto failure = device_failure(error, device)) throw *failure;
    throw;
  }
}

}  // namespace lockstep
