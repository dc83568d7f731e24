// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/event_record.h"

#include <array>
#include <bit>

namespace lockstep {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

template <typename Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) out += static_cast<char>(value >> (8 * i) & 0xffU);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7fU) | 0x80U);
  out += static_cast<char>(value);
}

// Protocol buffers write a field as a key, which is its number and wire type, and then the value.
enum class Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_key(std::string& out, std::uint64_t field, Wire wire) {
  put_varint(out, field << 3U | static_cast<std::uint64_t>(wire));
}

void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Field numbers from tensorflow/core/util/event.proto and framework/summary.proto.
namespace event_field {
constexpr std::uint64_t kWallTime = 1;
constexpr std::uint64_t kStep = 2;
constexpr std::uint64_t kFileVersion = 3;
constexpr std::uint64_t kSummary = 5;
constexpr std::uint64_t kSessionLog = 7;
}  // namespace event_field
constexpr std::uint64_t kSummaryValue = 1;
constexpr std::uint64_t kValueTag = 1;
constexpr std::uint64_t kValueSimple = 2;
constexpr std::uint64_t kSessionStatus = 1;
constexpr std::uint64_t kSessionStart = 1;

std::string event_head(double wall_time, std::int64_t step) {
  std::string out;
  put_key(out, event_field::kWallTime, Wire::kFixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(wall_time));
  if (step == 0) return out;  // A default is left out, as the protobuf library does.
  put_key(out, event_field::kStep, Wire::kVarint);
  put_varint(out, static_cast<std::uint64_t>(step));
  return out;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xffU] ^ (crc >> 8U);
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

std::string event_record(std::string_view data) {
  std::string out;
  put_little_endian(out, static_cast<std::uint64_t>(data.size()));
  put_little_endian(out, masked_crc32c(out));
  out += data;
  put_little_endian(out, masked_crc32c(data));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event_head(wall_time, 0);
  put_bytes(out, event_field::kFileVersion, "brain.Event:2");
  return out;
}

std::string session_start_event(double wall_time, std::int64_t step) {
  std::string log;
  put_key(log, kSessionStatus, Wire::kVarint);
  put_varint(log, kSessionStart);
  std::string out = event_head(wall_time, step);
  put_bytes(out, event_field::kSessionLog, log);
  return out;
}

std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& scalar : scalars) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    put_key(value, kValueSimple, Wire::kFixed32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string out = event_head(wall_time, step);
  put_bytes(out, event_field::kSummary, summary);
  return out;
}

}  // namespace lockstep
