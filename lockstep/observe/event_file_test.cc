// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/event_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "lockstep/base/error.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

using Curves = std::map<std::string, std::vector<std::pair<std::int64_t, double>>>;

template <typename Value>
Value taken(std::string_view& bytes) {
  Value value{};
  if (bytes.size() < sizeof(Value)) throw std::runtime_error("cut short");
  std::memcpy(&value, bytes.data(), sizeof(Value));
  bytes.remove_prefix(sizeof(Value));
  return value;
}

std::string_view taken_bytes(std::string_view& bytes, std::uint64_t size) {
  if (bytes.size() < size) throw std::runtime_error("cut short");
  const auto part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return part;
}

std::uint64_t taken_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = taken<unsigned char>(bytes);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
}

struct Field {
  std::uint64_t number = 0;
  std::uint64_t integer = 0;
  std::string_view bytes;
};

std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const std::uint64_t key = taken_varint(message);
    Field field{.number = key >> 3U, .integer = 0, .bytes = {}};
    switch (key & 7U) {
      case 0:
        field.integer = taken_varint(message);
        break;
      case 1:
        field.integer = taken<std::uint64_t>(message);
        break;
      case 2:
        field.bytes = taken_bytes(message, taken_varint(message));
        break;
      case 5:
        field.integer = taken<std::uint32_t>(message);
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    fields.push_back(field);
  }
  return fields;
}

std::vector<std::string> records_of(const std::filesystem::path& path) {
  const std::string text = text_of_file(path);
  std::string_view rest = text;
  std::vector<std::string> records;
  while (!rest.empty()) {
    const std::string_view length = rest.substr(0, sizeof(std::uint64_t));
    const auto size = taken<std::uint64_t>(rest);
    if (taken<std::uint32_t>(rest) != masked_crc32c(length)) throw std::runtime_error("damaged length");
    const auto data = taken_bytes(rest, size);
    if (taken<std::uint32_t>(rest) != masked_crc32c(data)) throw std::runtime_error("damaged data");
    records.emplace_back(data);
  }
  return records;
}

void add_event(Curves& curves, std::string_view event) {
  std::int64_t step = 0;
  for (const auto& field : fields_of(event)) {
    if (field.number == 2) step = static_cast<std::int64_t>(field.integer);
    if (field.number == 7) {  // A session's start drops what lies beyond it, as TensorBoard does.
      for (auto& [tag, points] : curves)
        std::erase_if(points, [step](const auto& point) { return point.first >= step; });
    }
    if (field.number != 5) continue;
    for (const auto& value : fields_of(field.bytes)) {
      const auto parts = fields_of(value.bytes);
      curves[std::string(parts.at(0).bytes)].emplace_back(
          step, std::bit_cast<float>(static_cast<std::uint32_t>(parts.at(1).integer)));
    }
  }
}

class TensorBoardFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "event file-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TensorBoardFile board() const {
    const ProcessIdentity self{.host = "n1", .pid = 4711};
    return TensorBoardFile(
        folder_, self, [] { return std::chrono::system_clock::time_point{std::chrono::milliseconds{1795250970250}}; });
  }

  void run(std::int64_t first, std::int64_t last) const {
    TensorBoardFile file = board();
    file.on(RunStarted{.name = "digits", .run_dir = folder_, .first_step = first});
    for (std::int64_t step = first + 1; step <= last; ++step) {
      file.on(StepEnded{
          .step = step, .samples = 50, .seconds = 0.1, .learning_rate = 0.1, .loss = 1.0 / static_cast<double>(step)});
    }
    file.on(ValidationEnded{.step = last, .train_loss = 0.5, .metrics = {{"val_accuracy", 0.975}, {"val_loss", 0.2}}});
  }

  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().filename() != "metrics.jsonl") paths.push_back(entry.path());
    }
    std::ranges::sort(paths);
    return paths;
  }

  Curves curves() const {
    Curves curves;
    for (const auto& path : files()) {
      for (const auto& record : records_of(path)) add_event(curves, record);
    }
    return curves;
  }

  std::filesystem::path folder_;
};

TEST_F(TensorBoardFileTest, ReadsBackEveryScalarAsAFloat) {
  run(0, 3);
  const Curves read = curves();
  EXPECT_EQ(read.size(), 6U);
  const auto third = static_cast<double>(static_cast<float>(1.0 / 3));
  EXPECT_EQ(read.at("train_loss"), (Curves::mapped_type{{1, 1.0}, {2, 0.5}, {3, third}}));
  EXPECT_EQ(read.at("learning_rate").at(2), (std::pair<std::int64_t, double>{3, 0.1F}));
  EXPECT_EQ(read.at("samples_per_second").at(0), (std::pair<std::int64_t, double>{1, 500}));
  EXPECT_EQ(read.at("epoch_train_loss"), (Curves::mapped_type{{3, 0.5}}));
  EXPECT_EQ(read.at("val_accuracy"), (Curves::mapped_type{{3, 0.975F}}));
  EXPECT_EQ(read.at("val_loss"), (Curves::mapped_type{{3, 0.2F}}));
}

TEST_F(TensorBoardFileTest, HasTheNameThatTensorBoardLooksFor) {
  run(0, 1);
  EXPECT_EQ(files().front().filename(), "events.out.tfevents.1795250970.n1.4711.0");
}

TEST_F(TensorBoardFileTest, StartsInTheSameSecondSortInTheirOrder) {
  for (int i = 0; i < 3; ++i) run(0, 1);
  EXPECT_EQ(files().at(2).filename(), "events.out.tfevents.1795250972.n1.4711.0");
}

TEST_F(TensorBoardFileTest, AResumedRunGoesOnWithoutOverlap) {
  run(0, 9);
  run(6, 8);
  const Curves read = curves();
  std::vector<std::int64_t> steps;
  for (const auto& [step, value] : read.at("train_loss")) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(read.at("val_loss").size(), 1U);
}

// The run is killed after the validation of step 8. The snapshot of this step does not count the epoch as completed.
TEST_F(TensorBoardFileTest, AValidationThatAResumedRunDoesAgainIsThereOnce) {
  {
    MetricsFile metrics(folder_ / "metrics.jsonl");
    metrics.on(RunStarted{.run_dir = folder_});
    metrics.on(StepEnded{.step = 7, .samples = 50, .seconds = 0.1, .learning_rate = 0.1, .loss = 1.0 / 7});
    metrics.on(StepEnded{.step = 8, .samples = 50, .seconds = 0.1, .learning_rate = 0.1, .loss = 1.0 / 8});
    metrics.on(ValidationEnded{.step = 8, .epoch = 0, .train_loss = 0.5, .metrics = {{"val_loss", 0.2}}});
    run(0, 8);
  }
  const auto before = curves();
  TensorBoardFile file = board();
  const RunStarted start{.run_dir = folder_, .first_step = 8, .first_epoch = 0};
  file.on(start);
  EXPECT_TRUE(curves().at("val_loss").empty());
  for (const auto* tag : {"train_loss", "learning_rate"}) EXPECT_EQ(curves().at(tag), before.at(tag)) << tag;
  EXPECT_EQ(curves().at("samples_per_second").size(), 8U);
  file.on(ValidationEnded{.step = 8, .epoch = 0, .train_loss = 0.5, .metrics = {{"val_loss", 0.2}}});
  EXPECT_EQ(curves().at("val_loss"), before.at("val_loss"));
  TensorBoardFile later = board();
  later.on(RunStarted{.run_dir = folder_, .first_step = 8, .first_epoch = 1});
  EXPECT_EQ(curves().at("val_loss"), before.at("val_loss")) << "its epoch is completed";
}

TEST_F(TensorBoardFileTest, WritesNothingForAStepWithoutALoss) {
  TensorBoardFile file = board();
  file.on(RunStarted{.run_dir = folder_});
  const auto size = std::filesystem::file_size(file.path());
  file.on(StepEnded{.step = 1});
  EXPECT_EQ(std::filesystem::file_size(file.path()), size);
}

TEST_F(TensorBoardFileTest, SaysWhyItCannotBeMade) {
  TensorBoardFile file(folder_ / "none", {.host = "n1", .pid = 1});
  try {
    file.on(RunStarted{});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find(".n1.1.0' failed: No such file or directory"), std::string::npos)
        << error.what();
  }
}

TEST_F(TensorBoardFileTest, TheRealTensorBoardSeesTheSameCurves) {
  const char* python = std::getenv("LOCKSTEP_PEER_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "LOCKSTEP_PEER_PYTHON names no Python that has the package tensorboard";
  run(0, 900);
  run(600, 800);
  // After a kill the newest file ends with an incomplete record.
  std::filesystem::resize_file(files().back(), std::filesystem::file_size(files().back()) - 3);
  run(700, 1000);
  const auto script = lockstep::testing::source_root() / "tests/tensorboard/read_back.py";
  const std::string command = std::string("'") + python + "' '" + script.string() + "' '" + folder_.string() + "' 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const auto got = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), got);
  ASSERT_EQ(::pclose(pipe), 0) << output;
  const auto seen = nlohmann::json::parse(output.substr(output.rfind("{\""))).get<Curves>();
  ASSERT_EQ(seen.size(), 6U);
  const auto& losses = seen.at("train_loss");
  ASSERT_EQ(losses.size(), 1000U);
  for (std::int64_t step = 1; step <= 1000; ++step) {
    EXPECT_EQ(losses.at(static_cast<std::size_t>(step - 1)),
              (std::pair<std::int64_t, double>{step, static_cast<float>(1.0 / static_cast<double>(step))}));
  }
  EXPECT_EQ(seen.at("val_loss"), (Curves::mapped_type{{1000, 0.2F}}));
}

}  // namespace
}  // namespace lockstep
