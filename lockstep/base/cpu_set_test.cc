// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cpu_set.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(CpuSets, ReadTheKernelsLists) {
  EXPECT_EQ(cpus_of_list("0-3,8\n"), (CpuSet{0, 1, 2, 3, 8}));
  EXPECT_EQ(cpus_of_list("7"), (CpuSet{7}));
  EXPECT_TRUE(cpus_of_list("\n").empty());
}

TEST(CpuSets, ReadTheMasksOfSrunFromTheRight) {
  EXPECT_EQ(cpus_of_mask("0x00fe000000000000"), cpus_of_list("49-55"));
  EXPECT_EQ(cpus_of_mask("fc0"), cpus_of_list("6-11"));
  EXPECT_EQ(cpus_of_mask("0x10000000000000000000000000000000"), (CpuSet{124})) << "longer than any integer";
}

TEST(CpuSets, AreWrittenAsTheyAreRead) {
  for (const char* text : {"0-3,8", "7", "1,3,5", "0-127", ""}) EXPECT_EQ(list_of(cpus_of_list(text)), text);
}

TEST(CpuSets, RefuseWhatIsNone) {
  for (const char* text : {"3-1", "a", "1-", "1,,2", "-1", "0-70000"}) {
    EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { cpus_of_list(text); }),
               "'" + std::string(text) + "' is not a set of CPUs");
  }
  for (const char* text : {"0x", "", "0xfg", "1 2"}) {
    EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { cpus_of_mask(text); }), "want a hexadecimal mask");
  }
}

TEST(CpuSets, BindThisProcessAndLetItGoAgain) {
  const CpuSet before = cpus_of_process();
  ASSERT_FALSE(before.empty());
  const CpuSet one = {*before.begin()};
  EXPECT_EQ(bind_process(one), one);
  EXPECT_EQ(cpus_of_process(), one);
  EXPECT_EQ(bind_process(before), before);
}

TEST(CpuSets, BindingToWhatThisMachineHasNotChangesNothing) {
  const CpuSet before = cpus_of_process();
  EXPECT_TRUE(bind_process({65000}).empty());
  EXPECT_EQ(cpus_of_process(), before);
}

}  // namespace
}  // namespace lockstep
