// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/median.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli_data/commands.h"
#include "lockstep/cli_data/data_target.h"
#include "lockstep/cli_data/output.h"
#include "lockstep/data/batch_reader.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// The measured rate of the loader, for one data set and one number of workers.
struct LoaderRate {
  std::string path;
  std::string kind;
  std::int64_t samples = 0;
  int workers = 0;
  double samples_per_second = 0;
  double megabytes_per_second = 0;  ///< Decoded, as training gets them.
};

BatchAllocator allocator(const std::vector<Field>& fields) {
  return [&fields](std::int64_t samples) {
    auto blocks = std::make_shared<std::vector<std::unique_ptr<std::byte[]>>>();
    BatchMemory memory;
    for (const Field& field : fields) {
      blocks->push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(samples) * field.bytes()));
      memory.fields.push_back(blocks->back().get());
    }
    memory.owner = blocks;
    return memory;
  };
}

double seconds_of_epoch(BatchReader& loader) {
  const auto start = std::chrono::steady_clock::now();
  while (loader.next()) {
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

LoaderRate measured(const SampleSource& source, const LoaderBenchRequest& request, int workers) {
  const auto& fields = source.fields();
  BatchReader loader(source, {.global_batch = request.batch, .workers = workers}, allocator(fields));
  seconds_of_epoch(loader);  // Fills the system's cache.
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(request.epochs));
  for (int epoch = 0; epoch < request.epochs; ++epoch) seconds.push_back(seconds_of_epoch(loader));
  std::size_t bytes = 0;
  for (const Field& field : fields) bytes += field.bytes();
  LoaderRate rate{.samples = source.size(), .workers = workers};
  rate.samples_per_second = static_cast<double>(source.size()) / median_of(seconds);
  rate.megabytes_per_second = rate.samples_per_second * static_cast<double>(bytes) * 1e-6;
  return rate;
}

std::vector<LoaderRate> rates_of(const std::string& path, const LoaderBenchRequest& request,
                                 const DataContext& context) {
  DataRequest target;
  target.path = path;
  target.kind = request.kind;
  target.sets = request.sets;
  DataSettings settings = data_target(target, context.env, context.program);
  if (!request.transforms.empty()) settings.transforms = request.transforms;
  // Photographs differ in size, so they are cropped to one size, as in training.
  const bool has_photographs = settings.kind == "folder" || settings.kind == "hdf5";
  if (has_photographs && !settings.transforms) settings.transforms = {"random_resized_crop(224)", "flip"};
  const DataSets sets = open_data_sets(settings);
  std::vector<LoaderRate> rates;
  for (const int workers : request.workers) {
    context.log.info(path + ", " + counted(workers, "worker") + ": " + counted(request.epochs + 1, "time") + " " +
                     counted(sets.train->size(), "sample"));
    auto rate = measured(*sets.train, request, workers);
    rate.path = path;
    rate.kind = settings.kind;
    rates.push_back(std::move(rate));
  }
  return rates;
}

Json json_of(const std::vector<LoaderRate>& rates) {
  Json object = {{"schema", 1}, {"rates", Json::array()}};
  for (const auto& rate : rates) {
    object["rates"].push_back({{"path", rate.path},
                               {"kind", rate.kind},
                               {"samples", rate.samples},
                               {"workers", rate.workers},
                               {"samples_per_second", rate.samples_per_second},
                               {"megabytes_per_second", rate.megabytes_per_second}});
  }
  return object;
}

std::string text_of(const std::vector<LoaderRate>& rates) {
  std::size_t width = 8;
  for (const auto& rate : rates) width = std::max(width, rate.path.size());
  std::string text = padded("data set", width + 2) + "kind      workers  samples/s     MB/s\n";
  const auto right = [](const std::string& number, std::size_t room) {
    return std::string(room - std::min(room, number.size()), ' ') + number;
  };
  for (const auto& rate : rates) {
    text += padded(rate.path, width + 2) + padded(rate.kind, 10) + right(std::to_string(rate.workers), 7) +
            right(fixed(rate.samples_per_second, 0), 11) + right(fixed(rate.megabytes_per_second, 1), 9) + "\n";
  }
  return text;
}

}  // namespace

void run_bench_loader(const LoaderBenchRequest& request, const DataContext& context) {
  if (request.batch < 1 || request.epochs < 1) {
    throw Error(ErrorKind::kUsage, "--batch is " + std::to_string(request.batch) + " and --epochs " +
                                       std::to_string(request.epochs) + ", want 1 or more of each");
  }
  std::vector<LoaderRate> rates;
  for (const auto& path : request.paths) {
    for (auto& rate : rates_of(path, request, context)) rates.push_back(std::move(rate));
  }
  if (request.json) return print_line(json_of(rates));
  print_text(text_of(rates));
}

}  // namespace lockstep
