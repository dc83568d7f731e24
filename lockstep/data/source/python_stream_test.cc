// SPDX-License-Identifier: Apache-2.0
// The same with PyTorch's IterableDataset and ranks: tests/python_models/data_test.py. Here any Python serves.
#include "lockstep/data/source/python_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/data/batch_reader.h"
#include "lockstep/data/source/sources.h"
#include "tests/support/python_data.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::python_data;

// Without PyTorch there is no get_worker_info(), so a worker's share follows from the order of forks.
constexpr const char* kCode = R"(
import os, random
class Numbers:
    def __init__(self, size=100, way=""): self.size, self.way = size, way
    def __len__(self): return self.size
    def set_epoch(self, epoch): self.epoch = epoch
    def __iter__(self):
        first = 0 if self.way == "twice" else os.getpid() % 1000 * 1000
        for number in range(self.size):
            if number == 7 and self.way == "raise": raise ValueError("seven")
            if number == 7 and self.way == "die": os._exit(1)
            yield float(first + number), float(getattr(self, "epoch", 0))
)";

class PythonStreamTest : public ::testing::Test {
 protected:
  PythonStreamTest() { std::ofstream(file_) << kCode; }

  std::shared_ptr<const SampleSource> stream(const std::string& arguments = "{}", int workers = 1) const {
    auto data = python_data(file_, "Numbers", arguments);
    data.workers = workers;
    return python_part(data, "train", 5)->samples;
  }

  struct Sample {
    int number = 0;  ///< Within the worker's stream.
    int worker = 0;
    int epoch = 0;
  };

  static Sample read(const SampleSource& source, std::int64_t epoch, std::int64_t ordinal) {
    std::array<float, 2> values{};
    std::array<std::byte*, 2> to = {reinterpret_cast<std::byte*>(&values[0]), reinterpret_cast<std::byte*>(&values[1])};
    source.read({.seed = 5, .epoch = epoch, .id = ordinal, .ordinal = ordinal}, to);
    const auto whole = static_cast<int>(values[0]);
    return {.number = whole % 1000, .worker = whole / 1000, .epoch = static_cast<int>(values[1])};
  }

  testing::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "data.py";
};

TEST_F(PythonStreamTest, WorkersTakeTurns) {
  const auto source = stream("{}", 3);
  EXPECT_TRUE(source->is_stream());
  EXPECT_EQ(source->size(), 100);
  std::array<int, 3> workers{};
  for (int i = 0; i < 200; ++i) {  // More than the slots that a worker has.
    const auto sample = read(*source, 0, i);
    EXPECT_EQ(sample.number, i / 3);
    auto& worker = workers[static_cast<std::size_t>(i % 3)];
    if (i < 3) worker = sample.worker;
    EXPECT_EQ(sample.worker, worker);
  }
}

TEST_F(PythonStreamTest, AnEpochBeginsAnewAndAResumeSkipsWhatWasBefore) {
  const auto source = stream();
  EXPECT_EQ(read(*source, 0, 0).number, 0);
  EXPECT_EQ(read(*source, 0, 1).number, 1);
  const auto next = read(*source, 4, 0);
  EXPECT_EQ(next.number, 0);
  EXPECT_EQ(next.epoch, 4) << "set_epoch() tells the data set";
  EXPECT_EQ(read(*source, 4, 70).number, 70);
  EXPECT_EQ(read(*source, 4, 3).number, 3) << "also backwards";
}

TEST_F(PythonStreamTest, AStreamThatEndsEarlyBeginsAgain) {
  const auto source = stream(R"({"size": 10})", 2);
  EXPECT_EQ(read(*source, 0, 19).number, 9);
  EXPECT_EQ(read(*source, 0, 20).number, 0);
}

TEST_F(PythonStreamTest, IsReadInOrderWhateverTheReadersOptions) {
  const auto source = stream();
  BatchReader reader(*source, {.global_batch = 10, .shard = {1, 2}, .seed = 5, .shuffle = true, .workers = 4},
                     [](std::int64_t samples) {
                       auto memory = std::make_shared<std::vector<float>>(static_cast<std::size_t>(2 * samples));
                       auto* first = reinterpret_cast<std::byte*>(memory->data());
                       return BatchMemory{{first, first + samples * 4}, memory};
                     });
  EXPECT_EQ(reader.options().workers, 0);
  const auto numbers = [](const LoadedBatch& batch) {
    const auto& memory = *std::static_pointer_cast<std::vector<float>>(batch.memory.owner);
    std::vector<int> out;
    for (std::size_t i = 0; i < batch.ids.size(); ++i) out.push_back(static_cast<int>(memory[i]) % 1000);
    return out;
  };
  EXPECT_EQ(numbers(*reader.next()), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(numbers(*reader.next()), (std::vector<int>{5, 6, 7, 8, 9}));
  reader.seek(0, 7);
  EXPECT_EQ(numbers(*reader.next()), (std::vector<int>{35, 36, 37, 38, 39})) << "of this rank's own stream";
}

TEST_F(PythonStreamTest, FailuresAreTold) {
  auto text = message_of(ErrorKind::kData, [&] { read(*stream(R"({"way": "raise"})"), 0, 9); });
  EXPECT_NE(text.find("ValueError: seven"), std::string::npos) << text;
  text = message_of(ErrorKind::kEnvironment, [&] { read(*stream(R"({"way": "die"})"), 0, 9); });
  EXPECT_NE(text.find("the Python process that read it ended"), std::string::npos) << text;
  text = message_of(ErrorKind::kData, [&] { read(*stream(R"({"way": "twice"})", 2), 0, 9); });
  EXPECT_NE(text.find("two workers begin with the same samples"), std::string::npos) << text;
  EXPECT_EQ(read(*stream(R"({"way": "twice"})", 1), 0, 9).number, 9);
}

TEST_F(PythonStreamTest, HasNoPartsByNumberButABeginning) {
  const auto source = stream();
  const auto beginning = subset(source, {0, 1, 2});
  EXPECT_TRUE(beginning->is_stream());
  EXPECT_EQ(beginning->size(), 3);
  EXPECT_EQ(read(*beginning, 0, 2).number, 2);
  const auto text = message_of(ErrorKind::kRecipe, [&] { subset(source, {1, 2}); });
  EXPECT_NE(text.find("an iterable data set, which has no samples by number"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
