// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/loader/loader.h"

namespace lockstep {

/// Where a training's data come from.
class DataModule {
 public:
  virtual ~DataModule() = default;

  /// Downloads, unpacks, converts: called on one rank of the job, before any rank calls setup().
  virtual void prepare_data() {}
  /// Opens files: called once on every rank.
  virtual void setup() {}

  /// Batches of this rank's part. `shard` is the rank's place in the world.
  virtual std::unique_ptr<Loader> train_loader(Shard shard) = 0;
  /// Null where nothing is validated.
  virtual std::unique_ptr<Loader> validation_loader(Shard) { return nullptr; }
};

}  // namespace lockstep
