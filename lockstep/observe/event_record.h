// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The bytes of a TensorBoard event file: TFRecords, each holding one `Event` message of TensorFlow's event.proto. Only
/// the few fields that Lockstep writes are known here, so no protobuf library is linked.

/// CRC-32C (Castagnoli). Source: RFC 3720, appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

/// A checksum of bytes that hold checksums themselves: rotated and offset. Source: TensorFlow, lib/hash/crc32c.h.
std::uint32_t masked_crc32c(std::string_view bytes);

/// `data` as a record: u64 length, masked CRC-32C of it, data, masked CRC-32C of that; all little-endian.
std::string event_record(std::string_view data);

/// The event that each file opens with. Wall times are seconds since 1970.
std::string version_event(double wall_time);

/// Says that a run goes on here: a reader drops what earlier files of the folder hold for `step` and beyond.
std::string session_start_event(double wall_time, std::int64_t step);

struct Scalar {
  std::string_view tag;
  double value = 0;  ///< Written as a 32-bit float: that is what TensorBoard's scalars are.
};

std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);

}  // namespace lockstep
