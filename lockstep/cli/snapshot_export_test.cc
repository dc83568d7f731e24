// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/cli/commands.h"
#include "lockstep/format/snapshot/snapshot_writer.h"
#include "lockstep/format/weights/weights_file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

constexpr const char* kState =
    R"({"optimizer": {"name": "sgd", "groups": [{"settings": {"lr": 0.1, "momentum": 0.9}, "params": ["fc.weight"]}]}})";

class SnapshotFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    write_snapshot("run", 420, {1, 2, 3, 4}, kState);
    write_snapshot("run", 840, {1, 2, 3.5, 4.25}, kState);
  }

  void write_snapshot(const std::string& run, std::int64_t step, std::array<float, 4> numbers,
                      const std::string& state) {
    const auto entry = [&](const char* name, std::vector<std::int64_t> shape) {
      return TensorEntry{
          .name = name, .dtype = "F32", .shape = std::move(shape), .bytes = std::as_bytes(std::span(numbers))};
    };
    const std::array<TensorEntry, 2> model = {entry("fc.weight", {2, 2}), entry("same", {4})};
    const std::array<TensorEntry, 1> optimizer = {entry("fc.weight.momentum_buffer", {2, 2})};
    SnapshotWriter writer(path(run) / "snapshots", step);
    writer.add_tensors("model.safetensors", std::span(model).first(run == "short" ? 1 : 2));
    const std::array<float, 4> means = {0.5, 0, 0, 0.25};
    const std::array<std::int64_t, 1> count = {step};
    const std::array<TensorEntry, 3> averages = {
        TensorEntry{
            .name = "average.fc.weight", .dtype = "F32", .shape = {2, 2}, .bytes = std::as_bytes(std::span(means))},
        TensorEntry{.name = "average.count", .dtype = "I64", .shape = {}, .bytes = std::as_bytes(std::span(count))},
        TensorEntry{
            .name = "average.lacks_statistics", .dtype = "I64", .shape = {}, .bytes = std::as_bytes(std::span(count))}};
    const std::size_t saved = run == "averaged in part" ? 3 : 2;
    if (run.starts_with("averaged")) {
      writer.add_tensors("extensions.safetensors", std::span(averages).first(saved));
    }
    writer.add_tensors("optimizer.safetensors", optimizer);
    writer.add_text("state.json", state);
    writer.commit();
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }

  /// Returns the standard output of `lockstep snapshot …`, without the folder's name.
  std::string output_of(std::vector<std::string> words) const {
    CLI::App app("lockstep");
    Context context;
    add_snapshot(app, context);
    std::ranges::reverse(words);
    words.emplace_back("snapshot");
    ::testing::internal::CaptureStdout();
    try {
      app.parse(words);
    } catch (const Error&) {
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    std::string text = ::testing::internal::GetCapturedStdout();
    const std::string place = path("").string();
    for (auto at = text.find(place); at != std::string::npos; at = text.find(place)) text.erase(at, place.size());
    return text;
  }
  std::string exported(const std::string& to, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"export", path("run").string(), "--to", path(to).string()});
    return output_of(std::move(more));
  }
  std::string difference(const std::string& a, const std::string& b, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"diff", path(a).string(), path(b).string()});
    return output_of(std::move(more));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SnapshotFiles, AreExportedFromTheNewestWholeOne) {
  EXPECT_EQ(exported("all.pt"), "all.pt: 2 tensors and the optimizer of step 840, 1.6 KiB\n");
  EXPECT_EQ(exported("weights.pt", {"--weights"}), "weights.pt: 2 tensors of step 840, 1.1 KiB\n");
  EXPECT_EQ(exported("weights.safetensors"), "weights.safetensors: 2 tensors of step 840, 200 B\n");
  for (const char* file : {"all.pt", "weights.pt", "weights.safetensors"}) {
    EXPECT_EQ(difference("run", file), "0 of 2 tensors differ\n") << file;
  }
  std::ofstream(path("run/snapshots/step-0000000840/state.json")) << "damaged";
  EXPECT_EQ(exported("all.pt"), "all.pt: 2 tensors and the optimizer of step 420, 1.6 KiB\n");
  EXPECT_EQ(nlohmann::json::parse(exported("all.pt", {"--json"})),
            nlohmann::json({{"schema", 1},
                            {"snapshot", "run/snapshots/step-0000000420"},
                            {"step", 420},
                            {"to", "all.pt"},
                            {"tensors", 2},
                            {"optimizer", true},
                            {"bytes", fs::file_size(path("all.pt"))}}));
}

TEST_F(SnapshotFiles, AreExportedWithAveragedWeightsWhereTheyAreAskedFor) {
  write_snapshot("averaged", 3, {1, 2, 3, 4}, kState);
  write_snapshot("averaged later", 0, {1, 2, 3, 4}, kState);
  const auto export_averaged = [&](const char* run, const char* to) {
    return output_of({"export", path(run).string(), "--to", path(to).string(), "--averaged"});
  };
  EXPECT_EQ(export_averaged("averaged", "mean.safetensors"), "mean.safetensors: 2 tensors of step 3, 200 B\n");
  EXPECT_EQ(export_averaged("averaged", "mean.pt"), "mean.pt: 2 tensors of step 3, 1.1 KiB\n");
  EXPECT_EQ(difference("mean.pt", "mean.safetensors"), "0 of 2 tensors differ\n");
  EXPECT_EQ(difference("averaged", "mean.pt"),
            "fc.weight  F32 [2, 2]  4 of 4 differ, by at most 3.75\n1 of 2 tensors differ\n");
  for (const char* run : {"run", "averaged later"}) {
    EXPECT_HAS(message_of(ErrorKind::kData, [&] { export_averaged(run, "none.pt"); }), "has no averaged weights");
  }
  // The fault: averaged weights were exported with the BatchNorm statistics of the last step, which belong to other
  // weights.
  write_snapshot("averaged in part", 3, {1, 2, 3, 4}, kState);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { export_averaged("averaged in part", "none.pt"); }),
             "has averaged weights without their BatchNorm statistics");
  EXPECT_FALSE(fs::exists(path("none.pt")));
}

TEST_F(SnapshotFiles, AreNotExportedWhereThereIsNothingToTake) {
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { exported("model.onnx"); }), "want a file that ends in .pt or .safete");
  EXPECT_HAS(message_of(ErrorKind::kIo,
                        [&] {
                          output_of({"export", path("x").string(), "--to", "x.pt"});
                        }),
             "is not a folder, want a run folder or a snapshot");
  fs::create_directories(path("empty/snapshots"));
  EXPECT_HAS(message_of(ErrorKind::kData,
                        [&] {
                          output_of({"export", path("empty").string(), "--to", "x.pt"});
                        }),
             "holds no snapshot, want at least one");
  for (const char* name : {"420", "840"}) {
    std::ofstream(path(std::string("run/snapshots/step-0000000") + name + "/state.json")) << "damaged";
  }
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { exported("x.pt"); }), "has no whole snapshot");
  write_snapshot("old", 1, {}, "{}");
  EXPECT_HAS(message_of(ErrorKind::kData,
                        [&] {
                          output_of({"export", path("old").string(), "--to", path("x.pt").string()});
                        }),
             "state.json does not hold the optimizer's settings");
  EXPECT_FALSE(fs::exists(path("x.pt")));
}

TEST_F(SnapshotFiles, AreComparedTensorByTensor) {
  EXPECT_EQ(difference("run/snapshots/step-0000000420", "run"),
            "fc.weight                             F32 [2, 2]  2 of 4 differ, by at most 0.5\n"
            "same                                  F32 [4]     2 of 4 differ, by at most 0.5\n"
            "optimizer: fc.weight.momentum_buffer  F32 [2, 2]  2 of 4 differ, by at most 0.5\n"
            "3 of 3 tensors differ\n");
  write_snapshot("short", 840, {1, 2, 3.5, 4.25}, kState);
  EXPECT_EQ(difference("run", "short"), "same  only in A\n0 of 2 tensors differ; on one side only: 1\n");
  EXPECT_EQ(difference("short", "run"), "same  only in B\n0 of 2 tensors differ; on one side only: 1\n");
}

TEST_F(SnapshotFiles, AreComparedInJson) {
  const auto found = nlohmann::json::parse(difference("run/snapshots/step-0000000420", "run", {"--json"}));
  EXPECT_EQ(found.at("equal"), false);
  EXPECT_EQ(found.at("common"), 3);
  EXPECT_EQ(found.at("different").size(), 3U);
  EXPECT_EQ(found.at("different").at(0), nlohmann::json({{"name", "fc.weight"},
                                                         {"a", {{"dtype", "F32"}, {"shape", {2, 2}}}},
                                                         {"b", {{"dtype", "F32"}, {"shape", {2, 2}}}},
                                                         {"numbers", 4},
                                                         {"differ", 2},
                                                         {"not_finite", 0},
                                                         {"max_abs", 0.5}}));
  EXPECT_EQ(nlohmann::json::parse(difference("run", "run", {"--json"})).at("equal"), true);
}

}  // namespace
}  // namespace lockstep::cli
