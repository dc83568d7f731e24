// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_data/data_target.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class KindOfPath : public ::testing::Test {
 protected:
  /// The kind of a fresh folder that holds just this file.
  std::string with(const std::string& name, const std::string& content = "x") {
    const fs::path root = folder_.path() / std::to_string(++made_);
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << content;
    return kind_of_path(root);
  }

  std::string of_file(const std::string& name, const std::string& content = "x") {
    std::ofstream(folder_.path() / name) << content;
    return kind_of_path(folder_.path() / name);
  }

  testing::TemporaryFolder folder_;
  int made_ = 0;
};

TEST_F(KindOfPath, IsToldFromTheNamesInAFolder) {
  EXPECT_EQ(with("train-images-idx3-ubyte.gz"), "idx");
  EXPECT_EQ(with("t10k-labels-idx1-ubyte"), "idx");
  EXPECT_EQ(with("cifar-10-batches-bin/data_batch_1.bin"), "cifar10");
  EXPECT_EQ(with("data_batch_1"), "cifar10");
  EXPECT_EQ(with("cifar-100-python/train"), "cifar100");
  EXPECT_EQ(with("train.bin"), "cifar100");
  EXPECT_EQ(with("train.h5"), "hdf5");
  EXPECT_EQ(with("train.tsv"), "csv");
  EXPECT_EQ(with("train.txt"), "text");
  EXPECT_EQ(with("train/ants/1.jpg"), "folder");
  EXPECT_EQ(with("ants/1.jpg"), "folder");
  EXPECT_EQ(with("train/1.txt"), "");
  EXPECT_EQ(with(".git/1"), "");
}

TEST_F(KindOfPath, IsToldFromAFilesNameOrFirstBytes) {
  EXPECT_EQ(of_file("a.csv"), "csv");
  EXPECT_EQ(of_file("a.txt"), "text");
  EXPECT_EQ(of_file("a.h5"), "hdf5");
  EXPECT_EQ(of_file("a", "\x89HDF\r\n\x1a\n and more"), "hdf5");
  EXPECT_EQ(of_file("a.unknown"), "");
  EXPECT_EQ(kind_of_path(folder_.path() / "missing"), "");
}

}  // namespace
}  // namespace lockstep
