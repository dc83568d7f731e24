// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/device/device.h"

namespace lockstep {

/// True if LibTorch threw `error` because a device or its memory gave out.
bool is_device_failure(const std::exception& error);

/// What LibTorch threw because a device gave out beneath its work, as an Error(kEnvironment) that a person can act on;
/// nothing for any other exception.
std::optional<Error> device_failure(const std::exception& error, const RankDevice& device);

/// Calls `work`; a failure of the device leaves it as that Error.
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
