// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/event_record.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <limits>

#include "lockstep/base/file.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

TEST(Crc32c, EqualsThePublishedValues) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU) << "RFC 3720, B.4";
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U) << "RFC 3720, B.4";
}

TEST(EventRecord, EqualsWhatTheRealTensorBoardWritesByteForByte) {
  const std::string long_tag(200, 't');
  std::string written = event_record(version_event(1795250970.25));
  written += event_record(session_start_event(1795250970.25, 30));
  written += event_record(scalars_event(1795250971.5, 127,
                                        std::array{Scalar{"train_loss", 2.302585092994046},
                                                   Scalar{"learning_rate", 0.1}, Scalar{"samples_per_second", 0}}));
  written += event_record(
      scalars_event(1795250972.0, 128, std::array{Scalar{"val_loss", std::numeric_limits<double>::infinity()}}));
  written += event_record(scalars_event(1795250973.0, 12345678901, std::array{Scalar{long_tag, -1e-42}}));
  const auto golden = lockstep::testing::source_root() / "tests/golden/tensorboard/events.golden";
  EXPECT_EQ(written, text_of_file(golden));
}

}  // namespace
}  // namespace lockstep
