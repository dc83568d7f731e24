// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/early_stopping.h"

#include <gtest/gtest.h>

#include <limits>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

Verdict heard(EarlyStopping& stopping, double value) {
  return stopping.on(ValidationEnded{.train_loss = 9, .metrics = {{"val_loss", value}}});
}

TEST(EarlyStopping, StopsAfterAsManyValidationsWithoutGainAsItsPatience) {
  EarlyStopping stopping({.patience = 2});
  EXPECT_EQ(heard(stopping, 1.0), Verdict::kContinue);
  EXPECT_EQ(heard(stopping, 1.0), Verdict::kContinue);
  EXPECT_EQ(heard(stopping, 0.9), Verdict::kContinue);
  EXPECT_EQ(heard(stopping, 0.95), Verdict::kContinue);
  EXPECT_EQ(heard(stopping, 0.9), Verdict::kStop);
}

TEST(EarlyStopping, AGainBelowMinDeltaIsNone) {
  EarlyStopping stopping({.wants_max = true, .patience = 1, .min_delta = 0.1});
  EXPECT_EQ(heard(stopping, 0.5), Verdict::kContinue);
  EXPECT_EQ(heard(stopping, 0.61), Verdict::kContinue);
  EXPECT_EQ(heard(stopping, 0.7), Verdict::kStop);
}

TEST(EarlyStopping, StopsAtOnceAtWhatIsNoNumber) {
  EarlyStopping stopping({});
  EXPECT_EQ(heard(stopping, std::numeric_limits<double>::quiet_NaN()), Verdict::kStop);
}

TEST(EarlyStopping, DecidesInAResumedRunAsInOneLeftAlone) {
  EarlyStopping first({.patience = 2});
  heard(first, 1.0);
  heard(first, 2.0);
  EarlyStopping second({.patience = 2});
  second.restore(first.state());
  EXPECT_EQ(heard(second, 1.5), Verdict::kStop);
}

TEST(EarlyStopping, ListsTheMetricsThatThereAre) {
  EarlyStopping stopping({.monitor = "val_f1"});
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { heard(stopping, 1); }),
             "[early_stopping] waits for 'val_f1', and this epoch gave train_loss, val_loss");
}

}  // namespace
}  // namespace lockstep
