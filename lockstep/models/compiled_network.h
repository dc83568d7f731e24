// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/models/network.h"

namespace lockstep {

/// Which batches the plain network trains, if they have another size than the compiled passes. With kFew it trains the
/// last batch of an epoch. Many such batches in a row are an error, since the file then belongs to another recipe. With
/// kAll it trains all of them.
enum class OtherBatches { kFew, kAll };

/// Returns `plain` with compiled training. torch.compile's Inductor compiled the forward and backward pass ahead of
/// time, and python/lockstep_host/passes.py wrote them. Parameters, buffers and their names are those of `plain`.
/// `plain` itself evaluates, and trains batches of another size than the compiled one.
///
/// The file holds machine code. It is loaded and run with the first batch that is trained. forward() then throws:
/// Error(kIo) if there is no such file; Error(kData) if the file has no compiled passes, or those of another network;
/// Error(kRecipe) if they were compiled for another device, precision or layout; Error(kEnvironment) if they were
/// compiled for another LibTorch.
std::shared_ptr<Network> make_compiled_network(const std::filesystem::path& file, std::shared_ptr<Network> plain,
                                               OtherBatches others = OtherBatches::kFew);

}  // namespace lockstep
