// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/flight_recorder.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::TemporaryFolder;

std::filesystem::path golden_record(const std::string& name) { return testing::source_root() / "tests/golden" / name; }

TEST(FlightRecords, OfPyTorchNameTheOpenCollective) {
  const auto found = read_flight_record(golden_record("flight_record.pickle"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, 1);
  EXPECT_EQ(found->operation, "gloo:all_reduce");
  EXPECT_EQ(found->sizes, "[3, 4]");
  EXPECT_EQ(found->group, "default_pg");
  EXPECT_HAS(found->caller, "step (");
  EXPECT_HAS(describe(*found), "collective 1, gloo:all_reduce of [3, 4] in default_pg, ");
}

TEST(FlightRecords, ThatAreCutOrForeignAreNothing) {
  const TemporaryFolder folder;
  const auto whole = text_of_file(golden_record("flight_record.pickle"));
  const auto path = folder.path() / "cut";
  for (std::size_t size = 0; size < whole.size(); size += 13) {
    write_whole(path, whole.substr(0, size), false);
    EXPECT_FALSE(read_flight_record(path));
  }
  EXPECT_FALSE(read_flight_record(folder.path()));
  EXPECT_FALSE(read_flight_record(folder.path() / "nowhere"));
}

TEST(FlightRecords, LieWhereTheVariablesSay) {
  EXPECT_EQ(flight_record_path({{"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/x/trace_"}}, 3), "/x/trace_3");
  EXPECT_EQ(flight_record_path({{"TORCH_FR_DUMP_TEMP_FILE", "/y/t"}, {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/x"}}, 0),
            "/y/t0");
}

TEST(FlightRecords, LieInTheCacheFolderOtherwise) {
  const TemporaryFolder folder;
  make_folder(folder.path() / "torch");
  write_whole(folder.path() / "torch/comm_lib_trace_rank_98", "");
  EXPECT_EQ(flight_record_path({{"XDG_CACHE_HOME", folder.path().string()}}, 98),
            folder.path() / "torch/comm_lib_trace_rank_98");
}

}  // namespace
}  // namespace lockstep
