// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/wire.h"

namespace lockstep {
namespace {

constexpr std::size_t kLengthBytes = 4;

// Little-endian on every machine.
void put_number(std::string& out, std::uint32_t number) {
  for (unsigned shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(number >> shift));
}

std::uint32_t number_at(std::string_view bytes) {
  std::uint32_t number = 0;
  for (unsigned i = 0; i < kLengthBytes; ++i) {
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return number;
}

std::string to_frame(std::string head, const std::vector<std::string>& fields) {
  for (const auto& field : fields) {
    put_number(head, static_cast<std::uint32_t>(field.size()));
    head += field;
  }
  std::string frame;
  frame.reserve(kLengthBytes + head.size());
  put_number(frame, static_cast<std::uint32_t>(head.size()));
  return frame += head;
}

std::optional<std::vector<std::string>> decode_fields(std::string_view bytes) {
  std::vector<std::string> fields;
  while (!bytes.empty()) {
    if (bytes.size() < kLengthBytes || fields.size() == kMostFields) return std::nullopt;
    const auto size = number_at(bytes);
    bytes.remove_prefix(kLengthBytes);
    if (size > bytes.size()) return std::nullopt;
    fields.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return fields;
}

}  // namespace

std::string encode(const StoreRequest& request) {
  std::string head(1, static_cast<char>(request.operation));
  put_number(head, request.generation);
  return to_frame(std::move(head), request.fields);
}

std::string encode(const StoreReply& reply) {
  return to_frame(std::string(1, static_cast<char>(reply.status)), reply.fields);
}

std::optional<StoreRequest> decode_request(std::string_view message) {
  constexpr std::size_t kHead = 1 + kLengthBytes;
  if (message.size() < kHead) return std::nullopt;
  const auto operation = static_cast<std::uint8_t>(message[0]);
  if (operation < static_cast<std::uint8_t>(StoreOperation::kSet) ||
      operation > static_cast<std::uint8_t>(StoreOperation::kOnLoss)) {
    return std::nullopt;
  }
  auto fields = decode_fields(message.substr(kHead));
  if (!fields) return std::nullopt;
  return StoreRequest{static_cast<StoreOperation>(operation), number_at(message.substr(1)), std::move(*fields)};
}

std::optional<StoreReply> decode_reply(std::string_view message) {
  if (message.empty()) return std::nullopt;
  const auto status = static_cast<std::uint8_t>(message[0]);
  if (status > static_cast<std::uint8_t>(StoreStatus::kRefused)) return std::nullopt;
  auto fields = decode_fields(message.substr(1));
  if (!fields) return std::nullopt;
  return StoreReply{static_cast<StoreStatus>(status), std::move(*fields)};
}

void FrameReader::push(std::string_view bytes) {
  waiting_.erase(0, used_);
  used_ = 0;
  waiting_.append(bytes);
}

std::optional<std::string> FrameReader::next() {
  const auto rest = std::string_view(waiting_).substr(used_);
  if (is_broken_ || rest.size() < kLengthBytes) return std::nullopt;
  const std::size_t size = number_at(rest);
  if (size == 0 || size > kMostFrameBytes) {
    is_broken_ = true;
    return std::nullopt;
  }
  if (rest.size() - kLengthBytes < size) return std::nullopt;
  std::string message(rest.substr(kLengthBytes, size));
  used_ += kLengthBytes + size;
  return message;
}

}  // namespace lockstep
