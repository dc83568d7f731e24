// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/host_list.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Hosts = std::vector<std::string>;

std::string complaint_about(const std::string& expression) {
  return testing::message_of(ErrorKind::kUsage, [&] { expanded_hosts(expression); });
}

std::string complaint_about_counts(const std::string& text) {
  return testing::message_of(ErrorKind::kEnvironment, [&] { expanded_counts(text); });
}

TEST(HostList, NamesWithoutBracketsStayAsTheyAre) {
  EXPECT_EQ(expanded_hosts("n05"), Hosts{"n05"});
  EXPECT_EQ(expanded_hosts("n1,n2,n1"), (Hosts{"n1", "n2", "n1"}));
  EXPECT_EQ(expanded_hosts(" a,,b\tc "), (Hosts{"a", "b", "c"}));
  EXPECT_EQ(expanded_hosts(""), Hosts{});
}

TEST(HostList, TheLowEndPadsTheWholeRange) {
  EXPECT_EQ(expanded_hosts("n[008-011,20]"), (Hosts{"n008", "n009", "n010", "n011", "n20"}));
  EXPECT_EQ(expanded_hosts("a[8-010]"), (Hosts{"a8", "a9", "a10"}));
  EXPECT_EQ(expanded_hosts("a[001-1]"), Hosts{"a001"});
}

TEST(HostList, SeveralBracketsMultiply) {
  EXPECT_EQ(expanded_hosts("a[1-2]x[3-4]"), (Hosts{"a1x3", "a1x4", "a2x3", "a2x4"}));
  EXPECT_EQ(expanded_hosts("tux[3]-[5-6]"), (Hosts{"tux3-5", "tux3-6"}));
  EXPECT_EQ(expanded_hosts("a[1-2][3-4]"), (Hosts{"a13", "a14", "a23", "a24"}));
}

TEST(HostList, ThreeBracketsRunInSlurmsOwnOrder) {
  EXPECT_EQ(expanded_hosts("a[1-2]b[3-4]c[5-6]"), (Hosts{"a1b3c5", "a1b3c6", "a2b3c5", "a2b3c6",  //
                                                         "a1b4c5", "a1b4c6", "a2b4c5", "a2b4c6"}));
}

TEST(HostList, RangesKeepTheOrderAndTheRepeatsThatWereWritten) {
  EXPECT_EQ(expanded_hosts("n[3-4,1,1]"), (Hosts{"n3", "n4", "n1", "n1"}));
}

TEST(HostList, TheComplaintNamesThePlaceAndTheFault) {
  EXPECT_EQ(complaint_about("n1,a[2-1]"),
            "host list 'n1,a[2-1]', character 6: range '2-1' runs backwards\n"
            "  hint: a host list is like 'n[008-011,20]' or 'a[1-2]x[3-4],b5'");
  EXPECT_NE(complaint_about("n[1-2").find("character 2: '[' is not closed"), std::string::npos);
  EXPECT_NE(complaint_about("n[[1-2]]").find("character 2: '[' is not closed"), std::string::npos);
  EXPECT_NE(complaint_about("n1]").find("character 3: ']' has no '['"), std::string::npos);
  EXPECT_NE(complaint_about("n[]").find("'' is not a number or a range"), std::string::npos);
  EXPECT_NE(complaint_about("n[1,]").find("character 5: '' is not a number"), std::string::npos);
  EXPECT_NE(complaint_about("n[a-b]").find("'a-b' is not a number"), std::string::npos);
  EXPECT_NE(complaint_about("n[1-2-3]").find("'1-2-3' is not a number"), std::string::npos);
  EXPECT_NE(complaint_about("n[99999999999999999999]").find("is not a number"), std::string::npos);
  EXPECT_NE(complaint_about("n[1-2]-ib").find("character 7: nothing may follow a name's last bracket, found '-ib'"),
            std::string::npos);
}

TEST(HostList, MoreThanAMillionHostsAreRefusedBeforeTheyAreMade) {
  EXPECT_EQ(expanded_hosts("n[1-1000000]").size(), 1'000'000U);
  for (const auto* expression : {"n[0-1000000]", "n[1-1000]x[1-1001]", "n[1-600000],m[1-600000]",
                                 "n[0-18446744073709551615]", "n[1-99999]x[1-99999]y[1-99999]"}) {
    EXPECT_NE(complaint_about(expression).find("it names more than 1000000 hosts"), std::string::npos) << expression;
  }
}

TEST(TaskCounts, RepeatsAreWrittenOut) {
  EXPECT_EQ(expanded_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(expanded_counts("4"), std::vector<int>{4});
}

TEST(TaskCounts, TheComplaintQuotesTheTextAndThePart) {
  EXPECT_EQ(complaint_about_counts("2(x3),1x"),
            "tasks per node '2(x3),1x': '1x' is not a count\n  hint: want counts as Slurm writes them, like '2(x3),1'");
  for (const auto* text : {"", "0", "-1", "2(x0)", "2(x)", "2(x3", "2x3", "1,,1", "1(x99999999)", " 1"}) {
    EXPECT_NE(complaint_about_counts(text).find("is not a count"), std::string::npos) << text;
  }
}

TEST(HostListFuzz, AnyBytesGiveHostsOrAUsageError) {
  std::mt19937 random(20);
  const std::string alphabet = "[]-,0123456789ab \t(x)\xff";
  for (int i = 0; i < 100'000; ++i) {
    std::string text(random() % 24, ' ');
    for (auto& c : text) c = i % 4 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    try {
      for (const auto& host : expanded_hosts(text))
        ASSERT_EQ(host.find_first_of("[], \t\n"), std::string::npos) << text;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kUsage) << text;
    }
    try {
      for (const int count : expanded_counts(text)) ASSERT_GT(count, 0) << text;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kEnvironment) << text;
    }
  }
}

}  // namespace
}  // namespace lockstep
