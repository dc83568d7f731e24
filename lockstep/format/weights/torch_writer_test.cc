// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "lockstep/base/file.h"
#include "lockstep/format/torch/names.h"
#include "lockstep/format/torch/pickle.h"
#include "lockstep/format/torch/writer.h"
#include "lockstep/format/torch/zip_file.h"
#include "lockstep/format/weights/weights_file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

const std::array<float, 6> kNumbers = {1, -2, 0.5, 4, 5, 1e-30F};
const std::int64_t kCount = (std::int64_t{1} << 40U) + 1;
const std::int64_t kSteps = 290;

template <typename Container>
TensorEntry tensor(std::string name, std::string dtype, std::vector<std::int64_t> shape, const Container& numbers) {
  return {.name = std::move(name),
          .dtype = std::move(dtype),
          .shape = std::move(shape),
          .bytes = std::as_bytes(std::span(numbers))};
}

std::vector<TensorEntry> model() {
  return {tensor("fc.weight", "F32", {2, 3}, kNumbers),
          tensor("bn.num_batches_tracked", "I64", {}, std::span(&kCount, 1)), tensor("half", "BF16", {12}, kNumbers),
          tensor("none", "F32", {0, 4}, std::span<const float>()), tensor("mask \u00e9", "BOOL", {24}, kNumbers)};
}

SavedOptimizer adam() {
  return {.name = "adam",
          .groups = {{.settings = {{"lr", 0.1}, {"betas", {0.9, 0.99}}, {"amsgrad", false}}, .parameters = {"half"}},
                     {.settings = {{"lr", 0.2}}, .parameters = {"none", "fc.weight"}}},
          .state = {tensor("fc.weight.exp_avg", "F32", {2, 3}, kNumbers),
                    tensor("fc.weight.step", "I64", {}, std::span(&kSteps, 1))}};
}

class TorchWriter : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "model.pt"; }
  std::string text() const { return text_of_file(path()); }

  testing::TemporaryFolder folder_;
};

void expect_model(const WeightsFile& found) {
  const auto wanted = model();
  ASSERT_EQ(found.tensors().size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& tensor = found.tensors()[i];
    EXPECT_EQ(tensor.name, wanted[i].name);
    EXPECT_EQ(tensor.dtype, wanted[i].dtype);
    EXPECT_EQ(tensor.shape, wanted[i].shape);
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, wanted[i].bytes));
  }
}

TEST_F(TorchWriter, WritesWeightsThatReadBackBitForBit) {
  write_torch_file(path(), model());
  expect_model(open_weights(path()));
  write_torch_file(path(), model(), adam());
  expect_model(open_weights(path()));
  write_safetensors_file(path(), model());
  EXPECT_EQ(open_weights(path()).tensors().size(), model().size());
}

TEST_F(TorchWriter, AlignsEveryEntryTo64Bytes) {
  write_torch_file(path(), model(), adam());
  const MappedFile file(path());
  const ZipFile zip(file.bytes(), "model.pt");
  for (const auto& [name, place] : zip.entries()) {
    const auto bytes = zip.entry(name);
    EXPECT_TRUE(bytes.empty() || (bytes.data() - file.bytes().data()) % 64 == 0) << name;
  }
}

TEST_F(TorchWriter, WritesTheSameBytesEachTime) {
  write_torch_file(path(), model(), adam());
  const std::string first = text();
  write_torch_file(path(), model(), adam());
  EXPECT_EQ(text(), first);
}

TEST_F(TorchWriter, LaysOutTheOptimizerAsTorchDoes) {
  write_torch_file(path(), model(), adam());
  const MappedFile file(path());
  const ZipFile zip(file.bytes(), "model.pt");
  const auto pickle = Pickle::read(zip.entry("archive/data.pkl"), "model.pt", is_torch_name);
  const PickleValue& optimizer = *pickle_entry(pickle.root(), "optimizer");

  const auto state = *pickle_entries(*pickle_entry(optimizer, "state"));
  ASSERT_EQ(state.size(), 1U);
  EXPECT_EQ(state[0].first->integer, 2);
  EXPECT_TRUE(pickle_entry(*state[0].second, "exp_avg")->is_call_of("torch._utils._rebuild_tensor_v2"));
  const auto step = torch_storage(*pickle_part(*pickle_entry(*state[0].second, "step"), 0), "step");
  EXPECT_EQ(step.dtype, "F32");
  float steps = 0;
  std::memcpy(&steps, zip.entry("archive/data/" + step.key).data(), sizeof steps);
  EXPECT_EQ(steps, 290);

  const PickleValue& groups = *pickle_entry(optimizer, "param_groups");
  ASSERT_EQ(groups.items.size(), 2U);
  const PickleValue& second = *groups.items[1];
  EXPECT_EQ(pickle_entry(second, "lr")->real, 0.2);
  EXPECT_EQ(pickle_entry(second, "fused")->kind, PickleKind::kNone);
  EXPECT_EQ(pickle_entry(second, "decoupled_weight_decay")->integer, 0);
  EXPECT_EQ(pickle_entry(second, "params")->items[1]->integer, 2);
  EXPECT_EQ(pickle_entry(second, "param_names")->items[1]->text, "fc.weight");
  EXPECT_EQ(pickle_entry(*groups.items[0], "betas")->items[1]->real, 0.99);
}

TEST_F(TorchWriter, RefusesStateThatBelongsToNoParameterAndKeepsTheFile) {
  std::ofstream(path()) << "mine";
  auto optimizer = adam();
  optimizer.groups.pop_back();
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { write_torch_file(path(), model(), optimizer); }),
             "the optimizer has state for parameters that none of its groups has");
  const std::vector<TensorEntry> odd = {tensor("small", "U16", {12}, kNumbers)};
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { write_torch_file(path(), odd); }),
             "'small' is U16, for which torch has no storage class\n  hint: export to FILE.safetensors instead");
  EXPECT_EQ(text(), "mine");
}

TEST_F(TorchWriter, NamesAFolderThatIsNotThere) {
  const auto nowhere = folder_.path() / "nowhere/model.pt";
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { write_torch_file(nowhere, model()); }), "No such file or directory");
}

}  // namespace
}  // namespace lockstep
