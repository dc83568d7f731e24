// SPDX-License-Identifier: Apache-2.0
// Images a second that the loader gives: bench_loader KIND PATH [WORKERS [EPOCHS [TRANSFORM…]]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/core_data_sets.h"
#include "lockstep/data/core_loader.h"

namespace {

lockstep::BatchAllocator allocator(const std::vector<lockstep::Field>& fields) {
  return [&fields](std::int64_t samples) {
    auto blocks = std::make_shared<std::vector<std::unique_ptr<std::byte[]>>>();
    lockstep::BatchMemory memory;
    for (const lockstep::Field& field : fields) {
      blocks->push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(samples) * field.bytes()));
      memory.fields.push_back(blocks->back().get());
    }
    memory.owner = blocks;
    return memory;
  };
}

void measure(const lockstep::DataSettings& settings, int workers, int epochs) {
  const lockstep::DataSets sets = lockstep::open_data_sets(settings);
  lockstep::CoreLoader loader(*sets.train, {.global_batch = 64, .workers = workers}, allocator(sets.train->fields()));
  for (int epoch = 0; epoch <= epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    while (loader.next()) {
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    // The first epoch fills the system's cache.
    if (epoch > 0) std::printf("%.0f\n", static_cast<double>(sets.train->size()) / seconds.count());
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) return 2;
    lockstep::DataSettings settings{.kind = argv[1], .path = argv[2]};
    settings.transforms.emplace(argv + (argc > 5 ? 5 : argc), argv + argc);
    if (settings.transforms->empty() && settings.kind != "text" && settings.kind != "csv") {
      settings.transforms = {"random_resized_crop(64)", "flip"};
    }
    measure(settings, argc > 3 ? std::atoi(argv[3]) : 2, argc > 4 ? std::atoi(argv[4]) : 5);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
