// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Makes the bytes of a TensorBoard event file. The file is a sequence of TFRecords, each with one `Event` message of
/// TensorFlow's event.proto. Only the few fields that Lockstep writes are known here, so no protobuf library is linked.

/// Returns the CRC-32C (Castagnoli) of `data`. Source: RFC 3720, appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

/// Returns a checksum for bytes that hold checksums themselves, rotated and offset. Source: TensorFlow,
/// lib/hash/crc32c.h.
std::uint32_t masked_crc32c(std::string_view bytes);

/// Returns `data` as a record, all little-endian. It has the u64 length, the length's masked CRC-32C, the data, and the
/// data's masked CRC-32C.
std::string event_record(std::string_view data);

/// Returns the event with which each file begins. Wall times are seconds since 1970.
std::string version_event(double wall_time);

/// Returns an event that says that a run continues here. A reader drops values of earlier files for `step` and beyond.
std::string session_start_event(double wall_time, std::int64_t step);

struct Scalar {
  std::string_view tag;
  double value = 0;  ///< Written as a 32-bit float, as all of TensorBoard's scalars.
};

std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);

}  // namespace lockstep
