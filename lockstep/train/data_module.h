// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The data of a training. Derive from DataModule and give it to Trainer::fit().
///
///     struct Data : lockstep::DataModule {
///       std::unique_ptr<lockstep::Loader> train_loader(lockstep::Shard shard) override {
///         return std::make_unique<lockstep::Loader>(points, lockstep::LoaderOptions{.global_batch = 100, .shard =
///         shard});
///       }
///       std::shared_ptr<const lockstep::SampleSource> points = lockstep::synthetic_source({.samples = 2000});
///     };

#include <memory>
#include <optional>

#include "lockstep/data/source/data_schema.h"
#include "lockstep/loader/loader.h"

namespace lockstep {

/// Makes the loaders of a training.
class DataModule {
 public:
  virtual ~DataModule() = default;

  /// Downloads, unpacks or converts. One rank of the job calls it, before any rank calls setup().
  virtual void prepare_data() {}
  /// Opens files. Every rank calls it once.
  virtual void setup() {}

  /// Returns a loader of this rank's part. `shard` is this rank and the number of ranks.
  virtual std::unique_ptr<Loader> train_loader(Shard shard) = 0;
  /// Returns a loader for validation. If it returns null, there is no validation.
  virtual std::unique_ptr<Loader> validation_loader(Shard) { return nullptr; }
  /// Returns facts about the data for a snapshot, such as column names, which later predictions need. See
  /// DataSets::schema. Empty by default.
  virtual std::optional<DataSchema> schema() const { return {}; }
};

}  // namespace lockstep
