// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep {
namespace {

using Parts = std::vector<std::string>;

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (Parts{"a", "", "b"}));
  EXPECT_EQ(split("", ','), Parts{""});
  EXPECT_EQ(split(",", ','), (Parts{"", ""}));
}

TEST(Text, TrimmedTakesWhiteSpaceFromBothEndsOnly) {
  EXPECT_EQ(trimmed(" \t a b \r\n"), "a b");
  EXPECT_EQ(trimmed(" \n "), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, JoinedPutsTheSeparatorBetween) {
  EXPECT_EQ(joined(Parts{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(joined(Parts{}, ", "), "");
}

TEST(Text, ParsedIntTakesWholeNumbersAndNothingElse) {
  EXPECT_EQ(parsed_int<int>("-12"), -12);
  EXPECT_EQ(parsed_int<std::uint64_t>("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  for (const char* text : {"", " 1", "1 ", "+1", "1.0", "0x10", "one", "-"}) {
    EXPECT_EQ(parsed_int<int>(text), std::nullopt) << text;
  }
}

TEST(Text, ParsedIntRefusesWhatDoesNotFitTheType) {
  EXPECT_EQ(parsed_int<int>("2147483647"), 2147483647);
  EXPECT_EQ(parsed_int<int>("2147483648"), std::nullopt);
  EXPECT_EQ(parsed_int<int>("-2147483649"), std::nullopt);
  EXPECT_EQ(parsed_int<std::int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parsed_int<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(parsed_int<std::uint64_t>("-1"), std::nullopt);
}

TEST(Text, ParsedDoubleTakesFiniteNumbersOnly) {
  EXPECT_EQ(parsed_double("1e-3"), 1e-3);
  for (const char* text : {"", "nan", "inf", "-inf", "1e999", "1,5", "1.5 "}) {
    EXPECT_EQ(parsed_double(text), std::nullopt) << text;
  }
}

TEST(Text, ShortestReadsBackAsTheSameNumber) {
  for (const double value : {0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, -0.0, 100.0}) {
    const auto back = parsed_double(shortest(value));
    ASSERT_TRUE(back);
    EXPECT_EQ(std::signbit(*back), std::signbit(value));
    EXPECT_EQ(*back, value);
  }
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(shortest(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(Text, FixedHasAsManyDigitsAsAsked) {
  EXPECT_EQ(fixed(2.0 / 3.0, 2), "0.67");
  EXPECT_EQ(fixed(3, 0), "3");
  EXPECT_EQ(fixed(1.7976931348623157e308, 2).size(), 312U);
}

TEST(Text, FixedStaysWithinItsBufferForAbsurdDigits) { EXPECT_TRUE(fixed(0.5, 5000).starts_with("0.5000")); }

TEST(Text, NearestNameFindsTheTypo) {
  const Parts names{"max_epochs", "max_steps", "momentum", "lr"};
  EXPECT_EQ(nearest_name("max_epoch", names), "max_epochs");
  EXPECT_EQ(nearest_name("maxsteps", names), "max_steps");
  EXPECT_EQ(nearest_name("rl", names), "lr");
  EXPECT_EQ(nearest_name("momentum", names), "momentum");
}

TEST(Text, NearestNameIsSilentWhereNothingIsNear) {
  EXPECT_EQ(nearest_name("zzzzzzzz", Parts{"max_epochs", "momentum"}), std::nullopt);
  EXPECT_EQ(nearest_name("anything", Parts{}), std::nullopt);
}

TEST(Text, HumanBytesUsesBinaryUnits) {
  EXPECT_EQ(human_bytes(812), "812 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(3ULL << 30U), "3.0 GiB");
  EXPECT_EQ(human_bytes(5000ULL << 40U), "5000.0 TiB");
}

TEST(Text, Hex64IsSixteenLowerCaseDigits) {
  EXPECT_EQ(hex64(0xABC), "0000000000000abc");
  EXPECT_EQ(hex64(~0ULL), "ffffffffffffffff");
}

}  // namespace
}  // namespace lockstep
