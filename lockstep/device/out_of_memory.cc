// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/out_of_memory.h"

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

std::string bytes_text(std::int64_t bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes)));
}

std::string fact_of(const MemoryShortage& shortage) {
  std::string text =
      "a batch of " + std::to_string(shortage.batch) + " does not fit into the memory of " + shortage.device;
  if (shortage.usable > 0) text += ": this process can hold " + bytes_text(shortage.usable);
  if (shortage.kept > 0) {
    text += ", " + bytes_text(shortage.kept) + " of it are taken by weights, buffers and what the optimizer keeps";
    if (shortage.samples > 0) text += ", and by samples (" + bytes_text(shortage.samples) + ", data.on_device)";
  }
  for (const auto& each : shortage.peaks) {
    text += "; a batch of " + std::to_string(each.batch) + " takes " + bytes_text(each.bytes);
  }
  return text;
}

std::string hint_of(const MemoryShortage& shortage) {
  const std::string otherwise =
      "trainer.precision = \"bf16\" and trainer.accumulate need less, `--find batch` tries what fits";
  const auto batch = largest_batch(shortage.peaks, shortage.batch, shortage.usable);
  if (!batch) return otherwise;
  return "about " + std::to_string(*batch) + " would fit: --set data.batch=" + std::to_string(*batch) + "; " +
         otherwise;
}

}  // namespace

std::optional<std::int64_t> largest_batch(const std::vector<BatchPeak>& peaks, std::int64_t tried,
                                          std::int64_t usable) {
  if (peaks.empty()) return std::nullopt;
  const auto by_batch = [](const BatchPeak& a, const BatchPeak& b) { return a.batch < b.batch; };
  const auto [small, large] = std::minmax_element(peaks.begin(), peaks.end(), by_batch);
  if (small->batch == large->batch) return large->batch;
  const double slope =
      static_cast<double>(large->bytes - small->bytes) / static_cast<double>(large->batch - small->batch);
  if (slope <= 0) return large->batch;
  const double more = static_cast<double>(usable - large->bytes) / slope;
  const auto most = large->batch + static_cast<std::int64_t>(more < 0 ? 0 : more);
  return std::min(most, tried - 1);
}

OutOfMemory::OutOfMemory(const MemoryShortage& shortage)
    : Error(ErrorKind::kEnvironment, fact_of(shortage), hint_of(shortage)) {}

}  // namespace lockstep
