// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/wire.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using namespace std::string_literals;

TEST(StoreWire, BytesAreAsThePageHasThem) {
  const StoreRequest request{StoreOperation::kSet, 258, {"key", "\0v"s}};
  EXPECT_EQ(encode(request), "\x12\0\0\0\x01\x02\x01\0\0\x03\0\0\0key\x02\0\0\0\0v"s);
  EXPECT_EQ(encode(StoreReply{StoreStatus::kOver, {}}), "\x01\0\0\0\x01"s);
}

TEST(StoreWire, WhatIsEncodedIsDecoded) {
  const StoreRequest request{StoreOperation::kGet, 7, {"", "a", std::string(100'000, 'x')}};
  const StoreReply reply{StoreStatus::kRefused, {"why"}};
  EXPECT_EQ(decode_request(encode(request).substr(4)), request);
  EXPECT_EQ(decode_reply(encode(reply).substr(4)), reply);
}

TEST(StoreWire, WhatIsNotWellFormedIsRefused) {
  EXPECT_FALSE(decode_request(""));
  EXPECT_FALSE(decode_request("\x01\0\0\0"s)) << "cut in the generation";
  EXPECT_FALSE(decode_request("\0\0\0\0\0"s)) << "no such operation";
  EXPECT_FALSE(decode_request("\x0d\0\0\0\0"s)) << "no such operation";
  EXPECT_FALSE(decode_request("\x01\0\0\0\0\x05\0\0"s)) << "cut in a field's length";
  EXPECT_FALSE(decode_request("\x01\0\0\0\0\x05\0\0\0abcd"s)) << "a field longer than the message";
  EXPECT_FALSE(decode_reply("\x03"s)) << "no such status";
  std::string many = "\x01\0\0\0\0"s;
  for (std::size_t i = 0; i <= kMostFields; ++i) many += "\0\0\0\0"s;
  EXPECT_FALSE(decode_request(many)) << "too many fields";
}

TEST(StoreWire, AStreamMayBeCutAnywhere) {
  const StoreRequest first{StoreOperation::kCheck, 1, {"a"}};
  const StoreRequest second{StoreOperation::kCount, 1, {}};
  const auto stream = encode(first) + encode(second);
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameReader reader;
    std::vector<StoreRequest> found;
    for (const auto& part : {stream.substr(0, cut), stream.substr(cut)}) {
      reader.push(part);
      while (const auto message = reader.next()) found.push_back(decode_request(*message).value());
    }
    EXPECT_EQ(found, (std::vector{first, second})) << cut;
  }
}

TEST(StoreWire, ATooLongOrEmptyMessageEndsTheStream) {
  for (const auto& length : {"\x01\0\0\x01"s, "\xff\xff\xff\xff"s, "\0\0\0\0"s}) {
    FrameReader reader;
    reader.push(length + encode(StoreRequest{}));
    EXPECT_FALSE(reader.next());
    EXPECT_TRUE(reader.is_broken());
    EXPECT_FALSE(reader.next());
  }
}

}  // namespace
}  // namespace lockstep
