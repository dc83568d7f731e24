// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/backend.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include <array>
#include <cstdio>

#include "lockstep/device/device_fault.h"
#include "lockstep/device/gpu_library.h"
#include "lockstep/device/streams.h"
#include "lockstep/device/watched_wait.h"
#include "lockstep/gpu/collectives.h"
#include "lockstep/gpu/graph.h"
#include "lockstep/gpu/names.h"

namespace lockstep::gpu {
namespace {

// Returns nothing if the version is not known. A driver's is 0 if there is none.
std::string text_from(Status (*ask)(int*)) {
  int version = 0;
  return ask(&version) == kSuccess && version > 0 ? version_text(version) : std::string();
}

std::string driver_text() { return text_from(driver_version); }
std::string runtime_text() { return text_from(runtime_version); }

FaultFacts facts_of(std::string said, const DeviceFacts* device = nullptr) {
  FaultFacts facts{.kind = kRuntime,
                   .driver = driver_text(),
                   .runtime = runtime_text(),
                   .torch = TORCH_VERSION,
                   .said = std::move(said)};
  if (device != nullptr) facts.device = device->name + " (" + device->architecture + ")";
  return facts;
}

void require(Status status, const DeviceFacts* device = nullptr) {
  if (status == kSuccess) return;
  forget_error();
  const auto facts = facts_of(words_of(status), device);
  // If there is no driver, the runtime also reports that the driver is too old. So this checks for the driver itself.
  const bool has_none = fault_of(status) == DeviceFault::kOldDriver && facts.driver.empty();
  throw device_error(has_none ? DeviceFault::kNoDriver : fault_of(status), facts);
}

DeviceFacts facts_of_device(int index) {
  Properties properties{};
  require(properties_of(&properties, index));
  std::array<char, 16> pci{};
  std::snprintf(pci.data(), pci.size(), "%04x:%02x:%02x.0", static_cast<unsigned>(properties.pciDomainID) & 0xffffU,
                static_cast<unsigned>(properties.pciBusID) & 0xffU,
                static_cast<unsigned>(properties.pciDeviceID) & 0xffU);
  return {.index = index,
          .name = properties.name,
          .pci = pci.data(),
          .uuid = uuid_of(properties),
          .architecture = architecture_of(properties),
          .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
}

// Multiplies small whole numbers, so that the result is exact in any arithmetic. It uses the maker's matrix library and
// LibTorch's own kernels, since either may lack code for an architecture that the other has.
void try_product(const DeviceFacts& device, const c10::Device& place) {
  constexpr std::int64_t kSize = 64;
  const auto options = at::TensorOptions(place).dtype(at::kFloat);
  try {
    const auto product = at::mm(at::full({kSize, kSize}, 2, options), at::full({kSize, kSize}, 3, options));
    const auto right = product.eq(static_cast<double>(6 * kSize)).all().item<bool>();
    if (right) return;
  } catch (const c10::Error& error) {
    forget_error();
    throw device_error(find_fault(error.what_without_backtrace()), facts_of(error.what_without_backtrace(), &device));
  }
  throw device_error(DeviceFault::kWrongResult, facts_of("64 x 64 twos times threes are not 384 everywhere", &device));
}

class GpuBackend final : public DeviceBackend {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }

  RuntimeFacts runtime() const override {
    return {.kind = kRuntime, .driver = driver_text(), .runtime = runtime_text(), .collectives = collectives_version()};
  }

  std::vector<DeviceFacts> devices() const override {
    int count = 0;
    const auto status = count_devices(&count);
    if (status == kNoDevice) {
      forget_error();
      return {};
    }
    require(status);
    std::vector<DeviceFacts> all;
    for (int index = 0; index < count; ++index) all.push_back(facts_of_device(index));
    return all;
  }

  void prepare(int index) const override {
    const auto device = facts_of_device(index);
    require(choose_device(index), &device);
    try_product(device, c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)));
  }

  DeviceMemory memory(int index) const override {
    std::size_t free = 0;
    std::size_t total = 0;
    require(choose_device(index));
    require(free_and_total(&free, &total));
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
    const auto& held = stats.allocated_bytes[kAll];
    return {.total = static_cast<std::int64_t>(total),
            .free = static_cast<std::int64_t>(free),
            .available = static_cast<std::int64_t>(free) + stats.reserved_bytes[kAll].current - held.current,
            .held = held.current,
            .peak = held.peak};
  }

  void forget_peak(int index) const override { allocator::resetPeakStats(static_cast<c10::DeviceIndex>(index)); }

  void synchronize(int index, const std::function<void()>& look) const override {
    require(choose_device(index));
    if (!look) return require(await_device());
    c10::Event done(c10::kCUDA);
    done.record(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream({c10::kCUDA, static_cast<c10::DeviceIndex>(index)}));
    watched_wait([&] { return done.query(); }, look);
  }

  std::function<bool()> mark(int index) const override {
    const c10::Device place(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
    auto event = std::make_shared<c10::Event>(c10::kCUDA);
    event->record(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(place));
    return [event = std::move(event)] { return event->query(); };
  }

  void give_back_memory(int index) const override {
    require(choose_device(index));
    allocator::emptyCache();
  }

  std::unique_ptr<CopyStream> copy_stream(int index) const override {
    return make_copy_stream(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)));
  }
  std::unique_ptr<StepGraph> step_graph(int index) const override { return make_step_graph(index); }
  void push_range(const char* name) const override { gpu::push_range(name); }
  void pop_range() const override { gpu::pop_range(); }
  const CollectiveMaker* collectives() const override { return &collective_maker(); }
};

}  // namespace
}  // namespace lockstep::gpu

extern "C" __attribute__((visibility("default"))) const lockstep::DeviceBackend* lockstep_gpu_backend_3() {
  static const lockstep::gpu::GpuBackend backend;
  return &backend;
}
