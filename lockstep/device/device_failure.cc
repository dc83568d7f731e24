// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/device_failure.h"

#include <c10/util/Exception.h>
#include <torch/version.h>

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

// Source: the allocators' messages in c10/cuda/CUDACachingAllocator.cpp.
constexpr std::string_view kOutOfMemory = "out of memory. Tried to allocate";

constexpr auto kNowhere = std::string_view::npos;

std::size_t find_failure(std::string_view words) {
  for (const auto each : kBeginnings) {
    if (const auto at = words.find(each); at != kNowhere) return at;
  }
  return kNowhere;
}

// Returns the whole line around a position. Only this line is for users. The lines after it are advice for developers,
// and the place in LibTorch's source. TorchScript writes its stack before it.
std::string line_at(std::string_view words, std::size_t at) {
  if (at == kNowhere) return std::string(first_line(words));
  const auto end_before = words.substr(0, at).rfind('\n');
  return std::string(first_line(words.substr(end_before == kNowhere ? 0 : end_before + 1)));
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const Error*>(&error) != nullptr) return false;  // It may quote another rank's.
  return std::string_view(error.what()).find(kOutOfMemory) != kNowhere;
}

bool is_device_failure(const std::exception& error) {
  return is_out_of_memory(error) || find_failure(error.what()) != kNowhere;
}

std::optional<Error> device_failure(const std::exception& error, const RankDevice& device) {
  const std::string_view words = error.what();
  if (is_out_of_memory(error)) {
    return Error(ErrorKind::kEnvironment,
                 device.description() + " ran out of memory (" + line_at(words, words.find(kOutOfMemory)) + ")",
                 "set a smaller data.global_batch, or trainer.precision = \"bf16\"");
  }
  const auto at = find_failure(words);
  if (at == kNowhere) return std::nullopt;
  const auto runtime = device.backend->runtime();
  return device_error(find_fault(words),
                      {.kind = runtime.kind,
                       .driver = runtime.driver,
                       .runtime = runtime.runtime,
                       .torch = TORCH_VERSION,
                       .device = device.description(),
                       .said = line_at(words, at)},
                      "then start again with --resume auto");
}

}  // namespace lockstep
