// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/hdf5/hdf5.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/format/hdf5/backend.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

std::string refusal(std::span<const std::filesystem::path> folders) {
  return message_of(ErrorKind::kEnvironment, [&] { load_hdf5_backend(folders); });
}

TEST(Hdf5, NamesTheFoldersThatLackItsLibraryAndTheWayOut) {
  const TemporaryFolder folder;
  const std::array<std::filesystem::path, 2> folders{folder.path() / "bin", folder.path() / "lib"};
  const std::string text = refusal(folders);
  EXPECT_NE(text.find("liblockstep_hdf5.so is neither in " + folders[0].string() + " nor in " + folders[1].string()),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("libhdf5-dev"), std::string::npos) << text;
}

TEST(Hdf5, SaysWhyItsLibraryCannotBeLoaded) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "liblockstep_hdf5.so") << "no library at all";
  const std::array<std::filesystem::path, 1> folders{folder.path()};
  const std::string text = refusal(folders);
  EXPECT_NE(text.find((folder.path() / "liblockstep_hdf5.so").string()), std::string::npos) << text;
  EXPECT_NE(text.find("install libhdf5 on this machine"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
