// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The operations of the store. The numbers are those on the wire, and never change their meaning.
enum class StoreOperation : std::uint8_t {
  kSet = 1,          ///< key, value, key, value, …, set all at once.
  kGet = 2,          ///< keys. Answered with their values once all are there.
  kWait = 3,         ///< keys. Answered once all are there.
  kAdd = 4,          ///< key, decimal number. Answered with the sum.
  kCheck = 5,        ///< keys. Answered with "1" if all are there, else "0".
  kErase = 6,        ///< key. Answered with "1" if it was there, else "0".
  kCompareSet = 7,   ///< key, expected, wanted. Answered with the key's value afterwards.
  kAppend = 8,       ///< key, bytes.
  kCount = 9,        ///< No fields. Answered with the number of keys.
  kGeneration = 10,  ///< No fields. Answered with the present generation.
  kRaise = 11,       ///< nothing. Makes the request's generation the present one, if that is one higher than it was.
  kOnLoss = 12,  ///< key, value, … If this client's connection ends, sets the keys for the whole run, and raises the
                 ///< generation. No fields: withdraws that.
};

struct StoreRequest {
  StoreOperation operation = StoreOperation::kCount;
  std::uint32_t generation = 0;  ///< 0 for the keys of the whole run, which outlive every generation.
  std::vector<std::string> fields{};

  bool operator==(const StoreRequest&) const = default;
};

enum class StoreStatus : std::uint8_t {
  kDone = 0,
  kOver = 1,     ///< The request's generation has ended.
  kRefused = 2,  ///< The request cannot be answered. The only field says why.
};

struct StoreReply {
  StoreStatus status = StoreStatus::kDone;
  std::vector<std::string> fields{};

  bool operator==(const StoreReply&) const = default;
};

inline constexpr std::size_t kMostFrameBytes = 16U << 20U;
inline constexpr std::size_t kMostFields = 1U << 16U;

/// Returns a complete frame: the message's length, then the message.
std::string encode(const StoreRequest& request);
std::string encode(const StoreReply& reply);

/// Parses the message of one frame, which is given without its length. Returns nullopt if the message is not well
/// formed.
std::optional<StoreRequest> decode_request(std::string_view message);
std::optional<StoreReply> decode_reply(std::string_view message);

/// Cuts a stream of bytes into messages.
class FrameReader {
 public:
  void push(std::string_view bytes);

  /// Returns the next whole message. Nullopt if there is none yet, or if is_broken().
  std::optional<std::string> next();

  /// True if the stream announced a message that is too long, or empty. Nothing after that can be read.
  bool is_broken() const { return is_broken_; }

 private:
  std::string waiting_;
  std::size_t used_ = 0;
  bool is_broken_ = false;
};

}  // namespace lockstep
