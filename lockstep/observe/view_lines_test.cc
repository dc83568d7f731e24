// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/view_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

TEST(ViewLines, HaveTheWaitAndBothStacks) {
  const json view = {{"process", {{"wait", "in read of /data/x"}}},
                     {"python", {"read (data.py:31)"}},
                     {"python_note", nullptr},
                     {"stack", {"read", "main"}},
                     {"flight_record", "collective 57, nccl:all_reduce"}};
  EXPECT_EQ(view_lines(view),
            (Lines{"its thread is in read of /data/x", "PyTorch's flight recorder: collective 57, nccl:all_reduce",
                   "Python stack, innermost first:", "  read (data.py:31)", "native stack, innermost first:", "  read",
                   "  main"}));
}

TEST(ViewLines, SayWhyAStackIsMissing) {
  EXPECT_EQ(view_lines({{"stack", nullptr}, {"stack_note", "a stopped process writes no stack"}, {"python", nullptr}}),
            Lines{"no native stack: a stopped process writes no stack"});
}

TEST(ViewLines, HaveTheRanksBelowALauncher) {
  const json below = {{{"rank", "1"}, {"pid", 5}, {"python", {"f (a.py:1)"}}}};
  EXPECT_EQ(view_lines({{"below", below}}),
            (Lines{"rank 1 below it (process 5):", "  Python stack, innermost first:", "    f (a.py:1)"}));
}

TEST(ViewLines, CutALongStack) { EXPECT_EQ(view_lines({{"stack", Lines(50, "f")}}).size(), 11U); }

TEST(ViewLines, OfOtherThingsAreNone) {
  EXPECT_TRUE(view_lines(nullptr).empty());
  EXPECT_TRUE(view_lines({{"process", 3}, {"stack", "x"}, {"below", {1, 2}}, {"flight_record", 4}}).empty());
}

}  // namespace
}  // namespace lockstep
