// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/comm/collective_maker.h"
#include "lockstep/data/source/image_source.h"
#include "lockstep/data/transform/transform_list.h"
#include "lockstep/device/host_fetch.h"
#include "lockstep/device/streams.h"
#include "lockstep/loader/loader.h"
#include "tests/support/gpu.h"
#include "tests/support/made_up_images.h"

namespace lockstep {
namespace {

TEST(Gpu, SaysWhatItIs) {
  REQUIRE_GPU();
  const auto group = testing::on_gpu();
  const auto& device = group.device();
  EXPECT_FALSE(device.facts.name.empty());
  EXPECT_EQ(device.facts.pci.size(), std::string("0000:3b:00.0").size());
  EXPECT_TRUE(device.facts.uuid.starts_with("GPU-") || device.facts.uuid.starts_with("MIG-")) << device.facts.uuid;
  EXPECT_FALSE(device.facts.architecture.empty());
  EXPECT_GT(device.facts.memory_bytes, std::int64_t{1} << 30);
  EXPECT_FALSE(device.backend->runtime().driver.empty());
  EXPECT_FALSE(device.backend->runtime().runtime.empty());
}

TEST(Gpu, CountsItsMemory) {
  REQUIRE_GPU();
  const auto group = testing::on_gpu();
  const auto& device = group.device();
  device.backend->forget_peak(device.index());
  const auto before = device.memory();
  constexpr std::int64_t kBytes = 64 << 20;
  auto tensor = at::empty({kBytes}, at::TensorOptions(device.device).dtype(at::kByte));
  EXPECT_GE(device.memory().held, before.held + kBytes);
  tensor.reset();
  EXPECT_EQ(device.memory().held, before.held);
  EXPECT_GE(device.memory().peak, before.held + kBytes);
  EXPECT_LE(device.memory().available, device.memory().total);
}

TEST(Gpu, CopiesBesideTheWorkAndReadsBackLater) {
  REQUIRE_GPU();
  const auto group = testing::on_gpu();
  const auto device = group.device().device;
  const ComputeStreamScope stream(device);
  const auto copies = make_copy_stream(device);
  const auto host = at::arange(1 << 20, at::kFloat).pin_memory();
  const auto sent = copies->send({host});
  copies->receive(sent);
  Readback readback;
  readback.begin(sent[0].sum());
  EXPECT_EQ(readback.wait().item<float>(), host.sum().item<float>());
}

TEST(Gpu, FetchesWhatWasThereBeforeWhileTheDeviceGoesOn) {
  REQUIRE_GPU();
  const auto group = testing::on_gpu();
  const auto device = group.device().device;
  const ComputeStreamScope stream(device);
  // The tensors to copy: a channels-last one that fills two chunks and a part of a third, and a small one.
  const auto tensor = at::rand({9, 100, 120, 97}, device).contiguous(at::MemoryFormat::ChannelsLast);
  auto own = at::empty_strided(tensor.sizes(), tensor.strides());
  const auto small = at::rand({7}, device);
  auto own_small = at::empty({7});
  HostFetch fetch(device);
  fetch.begin();
  const auto other = at::mm(at::rand({4096, 4096}, device), at::rand({4096, 4096}, device));
  std::thread worker([&] { fetch.fetch({{small, own_small.mutable_data_ptr()}, {tensor, own.mutable_data_ptr()}}); });
  worker.join();
  EXPECT_TRUE(own.equal(tensor.cpu()));
  EXPECT_TRUE(own_small.equal(small.cpu()));
  EXPECT_EQ(other.size(0), 4096);
}

TEST(Gpu, GathersTheBytesOfKeptSamplesThatTheirSourceReads) {
  REQUIRE_GPU();
  const auto group = testing::on_gpu();
  const std::vector<std::string> moves = {"random_crop(7, 10, padding=3)", "flip"};
  const auto images = std::make_shared<testing::MadeUpImages>();
  for (const std::shared_ptr<const SampleSource>& source :
       {std::shared_ptr<const SampleSource>(images),
        std::shared_ptr<const SampleSource>(transformed(images, parsed_transforms(moves, "data.transforms")))}) {
    const LoaderOptions options{.global_batch = 4, .seed = 9};
    Loader read(source, options), kept(source, options);
    kept.pin_memory();
    kept.cache_on(group.device().device);
    for (int epoch = 0; epoch < 3; ++epoch) {
      while (const auto wanted = read.next()) {
        const auto found = materialize(*kept.next());
        EXPECT_TRUE(at::equal(found.input().cpu(), wanted->input()));
        EXPECT_TRUE(at::equal(found.target().cpu(), wanted->target()));
      }
      EXPECT_FALSE(kept.next());
    }
  }
}

TEST(Gpu, OneRankTalksToItselfThroughItsCollectives) {
  REQUIRE_GPU();
  const auto group = testing::on_gpu();
  const auto* maker = group.device().backend->collectives();
  const auto backend = maker->make({.store = c10::make_intrusive<c10d::HashStore>(),
                                    .device = group.device().device,
                                    .timeout = std::chrono::minutes(1)});
  std::vector<at::Tensor> tensors = {at::arange(5, at::TensorOptions(group.device().device).dtype(at::kFloat))};
  backend->allreduce(tensors)->wait();
  EXPECT_EQ(tensors[0].sum().item<float>(), 10);
  EXPECT_EQ(maker->failure(*backend), std::nullopt);
  maker->end(*backend, /*has_failed=*/false);
}

TEST(Gpu, ARecordedPieceOfWorkRunsAgainOnTheSameMemory) {
  REQUIRE_GPU();
  const auto group = testing::on_gpu();
  const auto& device = group.device();
  const ComputeStreamScope stream(device.device);
  auto sum = at::zeros({3}, at::TensorOptions(device.device));
  const auto graph = device.backend->step_graph(device.index());
  graph->capture([&] { sum.add_(2); });
  EXPECT_EQ(sum.sum().item<float>(), 0) << "recording must not run";
  graph->replay();
  graph->replay();
  EXPECT_EQ(sum.sum().item<float>(), 12);
}

TEST(Gpu, WorkThatCannotBeRecordedLeavesTheDeviceUsable) {
  REQUIRE_GPU();
  const auto group = testing::on_gpu();
  const auto& device = group.device();
  const ComputeStreamScope stream(device.device);
  const at::TensorOptions there(device.device);
  const auto available = device.backend->memory(device.index()).available;
  auto sum = at::ones({3}, there);
  for (int i = 0; i < 3; ++i) {
    const auto graph = device.backend->step_graph(device.index());
    EXPECT_THROW(graph->capture([&] {
      const auto much = at::empty({available / 2}, there.dtype(at::kByte));
      sum.add_(at::rand({3}, there).sum().item<float>());
    }),
                 c10::Error);
  }
  EXPECT_EQ((sum + at::ones_like(sum)).sum().item<float>(), 6);
  EXPECT_NO_THROW(at::empty({available / 4 * 3}, there.dtype(at::kByte)))
      << "the recording's memory is to be had again";
  EXPECT_TRUE(at::empty({1000}, at::TensorOptions().pinned_memory(true)).is_pinned());

  // Random numbers are the same as before, also in work that can be recorded.
  auto generator = at::globalContext().defaultGenerator(device.device);
  generator.set_current_seed(5);
  const auto wanted = at::rand({3}, there);
  auto found = at::zeros({3}, there);
  const auto graph = device.backend->step_graph(device.index());
  graph->capture([&] { found.copy_(at::rand({3}, there)); });
  generator.set_current_seed(5);
  graph->replay();
  EXPECT_TRUE(at::equal(found, wanted));
}

}  // namespace
}  // namespace lockstep
