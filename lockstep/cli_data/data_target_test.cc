// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_data/data_target.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct KindOfPath : ::testing::Test {
  /// Makes a new folder that has only this file.
  fs::path folder_with(const std::string& name, const std::string& content = "x") {
    const fs::path root = folder.path() / std::to_string(++made);
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << content;
    return root;
  }

  testing::TemporaryFolder folder;
  int made = 0;
};

TEST_F(KindOfPath, IsToldFromTheNamesInAFolder) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"train-images-idx3-ubyte.gz", "idx"},
      {"t10k-labels-idx1-ubyte", "idx"},
      {"cifar-10-batches-bin/data_batch_1.bin", "cifar10"},
      {"data_batch_1", "cifar10"},
      {"cifar-100-python/train", "cifar100"},
      {"train.bin", "cifar100"},
      {"train.h5", "hdf5"},
      {"train.tsv", "csv"},
      {"train.txt", "text"},
      {"train/ants/1.jpg", "folder"},
      {"ants/1.jpg", "folder"},
      {"train/1.txt", ""},
      {".git/1", ""},
  };
  for (const auto& [name, kind] : kKinds) EXPECT_EQ(kind_of_path(folder_with(name)), kind) << name;
}

TEST_F(KindOfPath, IsToldFromAFilesNameOrFirstBytes) {
  for (const auto& [name, kind] : {std::pair("a.csv", "csv"), {"a.txt", "text"}, {"a.h5", "hdf5"}, {"a.unknown", ""}}) {
    EXPECT_EQ(kind_of_path(folder_with(name) / name), kind) << name;
  }
  EXPECT_EQ(kind_of_path(folder_with("a", "\x89HDF\r\n\x1a\n and more") / "a"), "hdf5");
  EXPECT_EQ(kind_of_path(folder.path() / "missing"), "");
}

}  // namespace
}  // namespace lockstep
