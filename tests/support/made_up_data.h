// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/data/source/synthetic_source.h"
#include "lockstep/train/data_module.h"

namespace lockstep::testing {

/// A data module with samples of four numbers in three classes. They are the same each time, and shuffled for training.
struct MadeUpData : DataModule {
  explicit MadeUpData(std::int64_t global_batch, std::int64_t samples = 22)
      : batch(global_batch), source(synthetic_source({.samples = samples, .classes = 3, .shape = {4}, .seed = 1})) {}

  std::unique_ptr<Loader> train_loader(Shard shard) override {
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = batch, .shard = shard, .seed = 5});
  }
  std::unique_ptr<Loader> validation_loader(Shard shard) override {
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = 5, .shard = shard, .shuffle = false});
  }

  std::int64_t batch;
  std::shared_ptr<const SampleSource> source;
};

}  // namespace lockstep::testing
