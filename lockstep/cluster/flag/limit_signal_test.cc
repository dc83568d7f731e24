// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/flag/limit_signal.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using namespace std::chrono_literals;

TEST(LimitSignal, IsANameAndSeconds) {
  for (const char* text : {"USR2@90", "SIGUSR2@90"}) {
    EXPECT_EQ(limit_signal(text).name, "USR2");
    EXPECT_EQ(limit_signal(text).before, 90s);
  }
}

TEST(LimitSignal, OfAnotherFormIsToldTheRightOne) {
  const std::pair<const char*, const char*> refused[] = {
      {"USR1", "want a signal and seconds, NAME@S"},
      {"B:USR1@90", "want USR1, USR2, TERM, INT or HUP before the @"},
      {"KILL@90", "want USR1, USR2, TERM, INT or HUP before the @"},
      {"10@90", "want USR1, USR2, TERM, INT or HUP before the @"},
      {"usr1@90", "want USR1, USR2, TERM, INT or HUP before the @"},
      {"USR1@", "want 1 to 65535 whole seconds after the @"},
      {"USR1@0", "want 1 to 65535 whole seconds after the @"},
      {"USR1@2m", "want 1 to 65535 whole seconds after the @"},
      {"USR1@65536", "want 1 to 65535 whole seconds after the @"},
  };
  for (const auto& each : refused) {
    const auto message = message_of(ErrorKind::kUsage, [&] { limit_signal(each.first); });
    EXPECT_HAS(message, "--signal is '" + std::string(each.first) + "', ");
    EXPECT_HAS(message, each.second);
    EXPECT_HAS(message, "--signal USR1@120");
  }
}

TEST(Requeue, IsYesOrNo) {
  EXPECT_TRUE(may_requeue("yes"));
  EXPECT_TRUE(may_requeue(""));
  EXPECT_FALSE(may_requeue("no"));
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { may_requeue("never"); }), "--requeue is 'never', want yes or no");
}

}  // namespace
}  // namespace lockstep
