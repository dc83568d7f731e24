// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The one header that programs include. All headers that it includes are public, and no others are installed. For a
/// loop of your own:
///
///     auto world = lockstep::join();                       // placement and process group
///     lockstep::DistributedDataParallel ddp(*net, world);  // the same weights on every rank
///     ddp.backward(loss, batch_size);                      // instead of loss.backward()
///
/// To leave the loop to Lockstep, derive from Module and DataModule and call Trainer::fit().

#include "lockstep/base/error.h"
#include "lockstep/comm/data_parallel.h"
#include "lockstep/comm/join.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/source/data_sets.h"
#include "lockstep/data/source/idx_source.h"
#include "lockstep/data/source/sources.h"
#include "lockstep/data/source/synthetic_source.h"
#include "lockstep/format/idx.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/loader/loader.h"
#include "lockstep/models/network.h"
#include "lockstep/models/plugin.h"
#include "lockstep/observe/events.h"
#include "lockstep/train/data_module.h"
#include "lockstep/train/extension.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/module.h"
#include "lockstep/train/task/classifier.h"
#include "lockstep/train/weight_average.h"
