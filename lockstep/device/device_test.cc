// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/device.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "lockstep/device/device_fault.h"
#include "lockstep/device/gpu_library.h"
#include "tests/support/fake_device.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::FakeBackend;
using testing::message_of;
using testing::TemporaryFolder;

NodeDevices node_with(const FakeBackend& backend) {
  return {.has_gpus = true, .backend = [&]() -> const DeviceBackend& { return backend; }};
}

TEST(Accelerator, IsFoundByNameAndAnUnknownOneIsRefused) {
  EXPECT_EQ(accelerator_named("auto"), Accelerator::kAuto);
  EXPECT_EQ(accelerator_named("cpu"), Accelerator::kCpu);
  EXPECT_EQ(accelerator_named("gpu"), Accelerator::kGpu);
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [] { accelerator_named("tpu"); }),
             "trainer.accelerator is 'tpu', want auto, cpu or gpu");
}

TEST(ChosenDevice, OnANodeWithoutGpusIsTheCpuUnlessAGpuIsWanted) {
  EXPECT_TRUE(chosen_device({.accelerator = Accelerator::kAuto}, {}).is_cpu());
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [] { chosen_device({.accelerator = Accelerator::kGpu}, {}); }),
             "trainer.accelerator is gpu, but this node has none");
}

TEST(ChosenDevice, IsTheOnlyOneThatATaskSeesOrTheLocalRanks) {
  const FakeBackend one(1);
  EXPECT_EQ(chosen_device({.local_rank = 3, .local_world = 4}, node_with(one)).index(), 0);
  const FakeBackend four(4);
  const auto third = chosen_device({.local_rank = 2, .local_world = 4}, node_with(four));
  EXPECT_EQ(third.device, c10::Device(c10::kCUDA, 2));
  EXPECT_EQ(third.description(), "Fake 9000 (sm_00, 16.0 GiB), 0000:02:00.0, GPU-2");
  EXPECT_EQ(chosen_device({.local_rank = 2, .local_world = 4, .index = 0}, node_with(four)).index(), 0);
  EXPECT_EQ(four.prepared, (std::vector<int>{2, 0}));
}

TEST(ChosenDevice, TheCpuIsTakenWithoutTouchingAGpu) {
  const FakeBackend four(4);
  EXPECT_TRUE(chosen_device({.accelerator = Accelerator::kCpu}, node_with(four)).is_cpu());
  EXPECT_TRUE(chosen_device({.are_hidden = true}, node_with(four)).is_cpu());
  EXPECT_TRUE(four.prepared.empty());
  EXPECT_HAS(
      message_of(ErrorKind::kEnvironment,
                 [&] { chosen_device({.accelerator = Accelerator::kGpu, .are_hidden = true}, node_with(four)); }),
      "CUDA_VISIBLE_DEVICES or its like hides all");
}

TEST(ChosenDevice, MoreRanksThanDevicesIsAnErrorUnlessTheyMayShare) {
  const FakeBackend two(2);
  const auto text =
      message_of(ErrorKind::kEnvironment, [&] { chosen_device({.local_rank = 3, .local_world = 4}, node_with(two)); });
  EXPECT_HAS(text, "local rank 3 of 4 on this node wants device 3, but sees 2 devices");
  EXPECT_HAS(text, "trainer.share_device = true");
  EXPECT_EQ(chosen_device({.local_rank = 3, .local_world = 4, .may_share = true}, node_with(two)).index(), 1);
}

TEST(ChosenDevice, NeverFallsBackToTheCpuWithoutAWord) {
  const FakeBackend none(0);
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { chosen_device({}, node_with(none)); }),
             "this node has GPUs, but this process sees none of them");
}

TEST(ChosenDevice, OfAmdHasConvolutionsTakeTensorsAsTheyLie) {
  const auto layout = [] { return std::getenv("PYTORCH_MIOPEN_SUGGEST_NHWC"); };
  FakeBackend one(1);
  chosen_device({}, node_with(one));
  EXPECT_EQ(layout(), nullptr);
  one.runtime_now.kind = "ROCm";
  chosen_device({}, node_with(one));
  EXPECT_STREQ(layout(), "1");
  EXPECT_STREQ(std::getenv("PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM"), "1");
  ::setenv("PYTORCH_MIOPEN_SUGGEST_NHWC", "0", 1);
  chosen_device({}, node_with(one));
  EXPECT_STREQ(layout(), "0") << "a person's own word stays";
}

TEST(ChosenDevice, HintsAskForDevicesThatAllTasksOfANodeSee) {
  const FakeBackend none(0);
  for (const DeviceRequest& request : {DeviceRequest{}, {.accelerator = Accelerator::kGpu, .are_hidden = true}}) {
    const auto text = message_of(ErrorKind::kEnvironment, [&] { chosen_device(request, node_with(none)); });
    EXPECT_HAS(text, "--gpus-per-node");
    EXPECT_EQ(text.find("--gpus-per-task"), std::string::npos) << text;
  }
}

TEST(GpuLibrary, AMissingOneIsAnErrorThatSaysHowToBuildIt) {
  const TemporaryFolder empty;
  const std::array<std::filesystem::path, 1> folders{empty.path()};
  const auto text = message_of(ErrorKind::kEnvironment, [&] { load_gpu_backend("liblockstep_missing.so", folders); });
  EXPECT_HAS(text, "this node has GPUs, but this build of lockstep-train computes on CPU only");
  EXPECT_HAS(text, "trainer.accelerator = \"cpu\"");
}

TEST(GpuLibrary, OneThatCannotBeLoadedIsNamedWithTheReason) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "liblockstep_broken.so") << "no library at all";
  const std::array<std::filesystem::path, 1> folders{folder.path()};
  const auto text = message_of(ErrorKind::kEnvironment, [&] { load_gpu_backend("liblockstep_broken.so", folders); });
  EXPECT_HAS(text, (folder.path() / "liblockstep_broken.so").string() + " cannot be loaded");
}

TEST(DeviceFault, EachKindSaysWhatWasFoundAndTheWayOut) {
  const FaultFacts facts{.kind = "CUDA",
                         .driver = "12.4",
                         .runtime = "13.0",
                         .torch = "2.11.0",
                         .device = "NVIDIA GeForce GTX 1080 (sm_61)",
                         .said = "the runtime's words"};
  const auto says = [&](DeviceFault fault) { return std::string(device_error(fault, facts).what()); };
  EXPECT_HAS(says(DeviceFault::kOldDriver), "the driver serves CUDA up to 12.4, LibTorch was built with CUDA 13.0");
  EXPECT_HAS(says(DeviceFault::kNoKernels), "LibTorch 2.11.0 has no code for NVIDIA GeForce GTX 1080 (sm_61)");
  EXPECT_HAS(says(DeviceFault::kWrongResult), "came out wrong: the runtime's words");
  for (const auto fault :
       {DeviceFault::kNoDriver, DeviceFault::kMismatch, DeviceFault::kNotReady, DeviceFault::kBusy,
        DeviceFault::kNotPermitted, DeviceFault::kNoMemory, DeviceFault::kBroken, DeviceFault::kOther}) {
    EXPECT_HAS(says(fault), "the runtime's words");
    EXPECT_HAS(says(fault), "hint: ");
  }
  EXPECT_EQ(device_error(DeviceFault::kOther, {}).kind(), ErrorKind::kEnvironment);
}

TEST(DeviceFault, IsToldFromTheRuntimesWords) {
  EXPECT_EQ(find_fault("CUDA error: no kernel image is available for execution on the device"),
            DeviceFault::kNoKernels);
  EXPECT_EQ(find_fault("HIP error: invalid device function"), DeviceFault::kNoKernels);
  EXPECT_EQ(find_fault("CUDA out of memory. Tried to allocate 2.00 MiB."), DeviceFault::kNoMemory);
  EXPECT_EQ(find_fault("CUDA error: uncorrectable ECC error encountered"), DeviceFault::kBroken);
  EXPECT_EQ(find_fault("something new"), DeviceFault::kOther);
}

TEST(CpuBackend, TellsItsMemory) {
  const auto memory = cpu_backend().memory(0);
  EXPECT_GT(memory.total, memory.available);
  EXPECT_GT(memory.available, 0);
  EXPECT_GT(memory.peak, 0);
}

}  // namespace
}  // namespace lockstep
