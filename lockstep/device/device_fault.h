// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep {

/// The reason why devices cannot be used. CUDA and ROCm have different words for the same reason.
enum class DeviceFault {
  kOldDriver,     ///< The driver serves an older runtime than LibTorch was built with.
  kNoDriver,      ///< The kernel's part is not there or does not answer.
  kMismatch,      ///< Driver library and kernel module are of different versions.
  kNotReady,      ///< The system's fabric or the device is still being set up.
  kBusy,          ///< Another process holds it alone.
  kNotPermitted,  ///< The device's files may not be opened.
  kNoKernels,     ///< LibTorch has no code for this architecture.
  kNoMemory,      ///< Not even a small product fits.
  kBroken,        ///< Memory that cannot be corrected, a lost link, a device gone.
  kWrongResult,   ///< The small product came out wrong.
  kAssertion,     ///< A kernel found an index that is out of range.
  kBadAccess,     ///< A kernel touched memory that is not there.
  kOther,
};

/// The facts for the message. An unknown fact is empty.
struct FaultFacts {
  std::string kind{};     ///< "CUDA", "ROCm"
  std::string driver{};   ///< "12.4"
  std::string runtime{};  ///< "13.0"
  std::string torch{};    ///< "2.11.0"
  std::string device{};   ///< "NVIDIA GeForce GTX 1080 (sm_61)"
  std::string said{};     ///< The runtime's own words.
};

/// Finds the fault that the message of a LibTorch exception describes, by the words of CUDA or ROCm in it.
DeviceFault find_fault(std::string_view words);

/// Returns an Error(kEnvironment) whose hint says what a user can do. `otherwise` is the end of the hint.
Error device_error(DeviceFault fault, const FaultFacts& facts,
                   std::string_view otherwise = "or set trainer.accelerator = \"cpu\"");

}  // namespace lockstep
