// SPDX-License-Identifier: Apache-2.0
// These tests need no PyTorch, so any Python will do. tests/python_models/data_test.py tests the same with real data
// sets and PyTorch.
#include "lockstep/data/source/python_source.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/support/python_data.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::python_data;

constexpr const char* kCode = R"(
import os, random
class Numbers:
    classes = ["even", "odd"]
    def __init__(self, size=300, way=""): self.size, self.way = size, way
    def __len__(self): return self.size
    def __getitem__(self, i):
        if i == 7 and self.way == "raise": raise ValueError("seven")
        if i == 7 and self.way == "die": os._exit(1)
        return i + random.random(), i % 2
def end(split): os._exit(3)
)";

class PythonSourceTest : public ::testing::Test {
 protected:
  PythonSourceTest() { std::ofstream(file_) << kCode; }

  PythonData data(const std::string& function, const std::string& arguments = "{}") const {
    return python_data(file_, function, arguments);
  }
  static float value(const SampleSource& source, SampleKey key) {
    float input = 0;
    std::int64_t target = 0;
    std::array<std::byte*, 2> to = {reinterpret_cast<std::byte*>(&input), reinterpret_cast<std::byte*>(&target)};
    source.read(key, to);
    EXPECT_EQ(target, key.id % 2);
    return input;
  }

  testing::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "data.py";
};

TEST_F(PythonSourceTest, ManyThreadsReadTheSameNumbers) {
  const auto part = python_part(data("Numbers"), "train", 5);
  ASSERT_TRUE(part);
  const auto& source = *part->samples;
  EXPECT_EQ(source.size(), 300);
  EXPECT_EQ(source.classes(), 2);
  EXPECT_EQ(part->class_names, (std::vector<std::string>{"even", "odd"}));
  EXPECT_EQ(source.fields()[0].dtype, "F32");
  std::vector<float> wanted;
  for (std::int64_t id = 0; id < 300; ++id) wanted.push_back(value(source, {.seed = 5, .epoch = 1, .id = id}));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      for (std::int64_t id = i; id < 300; id += 3) {
        wrong += value(source, {.seed = 5, .epoch = 1, .id = id}) != wanted[static_cast<std::size_t>(id)];
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_NE(value(source, {.seed = 5, .epoch = 2, .id = 3}), wanted[3]) << "chance follows from the epoch too";
}

TEST_F(PythonSourceTest, APartThatTheFunctionLacksIsNone) {
  EXPECT_FALSE(python_part(data("Numbers"), "validation", 5));
}

TEST_F(PythonSourceTest, AFailureIsTheSamplesAndTheNextOneIsRead) {
  const auto part = python_part(data("Numbers", R"({"way": "raise"})"), "train", 5);
  const auto text = message_of(ErrorKind::kData, [&] { value(*part->samples, {.id = 7}); });
  EXPECT_NE(text.find("ValueError: seven"), std::string::npos) << text;
  EXPECT_GE(value(*part->samples, {.id = 8}), 8);
}

TEST_F(PythonSourceTest, AWorkerThatEndsIsTold) {
  const auto part = python_part(data("Numbers", R"({"way": "die"})"), "train", 5);
  EXPECT_GE(value(*part->samples, {.id = 6}), 6);
  const auto text = message_of(ErrorKind::kEnvironment, [&] { value(*part->samples, {.id = 7}); });
  EXPECT_NE(text.find("the Python process that read it ended"), std::string::npos) << text;
}

TEST_F(PythonSourceTest, AServerThatEndsIsTold) {
  const auto text = message_of(ErrorKind::kEnvironment, [&] { python_part(data("end"), "train", 5); });
  EXPECT_NE(text.find("the Python process that holds the data set of end ended"), std::string::npos) << text;
  auto wrong = data("Numbers");
  wrong.python = "/no/python";
  message_of(ErrorKind::kEnvironment, [&] { python_part(wrong, "train", 5); });
}

}  // namespace
}  // namespace lockstep
