// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/device_failure.h"

#include <c10/util/Exception.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/text_format.h"
#include "lockstep/device/device_fault.h"

namespace lockstep {
namespace {

// The first words of LibTorch's messages on a failed call of the runtime, the driver or the maker's libraries. Their
// exceptions have no common type. c10::AcceleratorError is new, and MIOpen's are std::runtime_error.
// Source: c10/cuda/CUDAException.cpp, ATen/cuda/Exceptions.h, ATen/miopen/Exceptions.h.
constexpr auto kBeginnings =
    std::to_array<std::string_view>({"CUDA error: ", "HIP error: ", "CUDA driver error: ", "HIP driver error: ",
                                     "cuDNN error: ", "cuDNN Frontend error: ", "miopenStatus"});

bool begins_as_known(std::string_view words) {
  return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](std::string_view each) { return words.find(each) != std::string_view::npos; });
}

}  // namespace

bool is_device_failure(const std::exception& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || begins_as_known(error.what());
}

std::optional<Error> device_failure(const std::exception& error, const RankDevice& device) {
  const std::string_view words = error.what();
  // Only the first line is for users. The lines after it are advice for developers, and the place in LibTorch's source.
  const auto said = std::string(first_line(words));
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return Error(ErrorKind::kEnvironment, device.description() + " ran out of memory (" + said + ")",
                 "set a smaller data.global_batch, or trainer.precision = \"bf16\"");
  }
  if (!begins_as_known(words)) return std::nullopt;
  const auto runtime = device.backend->runtime();
  return device_error(find_fault(words),
                      {.kind = runtime.kind,
                       .driver = runtime.driver,
                       .runtime = runtime.runtime,
                       .torch = TORCH_VERSION,
                       .device = device.description(),
                       .said = said},
                      "then start again with --resume auto");
}

}  // namespace lockstep
