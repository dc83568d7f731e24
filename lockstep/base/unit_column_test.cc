// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/unit_column.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(UnitColumns, HaveTheUnitOfTheirLargestValueInTheHead) {
  EXPECT_EQ(time_column("step", {0.0001, 0.102, std::nullopt}), (TableColumn{"step (ms)", "0.10", "102.00", "-"}));
  EXPECT_EQ(time_column("time", {0.087, 1.28}), (TableColumn{"time (s)", "0.087", "1.280"}));
  EXPECT_EQ(time_column("time", {59.0, 3600.0}), (TableColumn{"time (min)", "0.98", "60.00"}));
  EXPECT_EQ(time_column("time", {36000.0}), (TableColumn{"time (h)", "10.00"}));
  EXPECT_EQ(time_column("time", {12e-6}), (TableColumn{"time (µs)", "12"}));
  EXPECT_EQ(time_column("time", {}), (TableColumn{"time (s)"}));
  EXPECT_EQ(time_column("time", {0.0}), (TableColumn{"time (s)", "0"}));
}

TEST(UnitColumns, OfBytesAreTheSame) {
  EXPECT_EQ(bytes_column("read", {712.0 * 1024, 4.1 * (1 << 20)}), (TableColumn{"read (MiB)", "0.7", "4.1"}));
  EXPECT_EQ(bytes_column("read", {0.0}), (TableColumn{"read (B)", "0"}));
}

TEST(UnitColumns, MakeRows) {
  EXPECT_EQ(rows_of_columns({{"a", "1", "2"}, {"b", "3", "4"}}), (TableRows{{"a", "b"}, {"1", "3"}, {"2", "4"}}));
}

}  // namespace
}  // namespace lockstep
