// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/models/network.h"

namespace lockstep {

/// `plain` with another way to train: what torch.compile's Inductor made of its forward and backward pass, ahead of
/// time, as python/compile_model.py writes it. Parameters, buffers and their names are those of `plain`, which itself
/// evaluates, and trains batches of another size than the one that was compiled for.
///
/// The file holds machine code: it is loaded, with the first batch that is trained, and run.
/// forward() then throws: Error(kIo) where there is no such file; Error(kData) where it is none of these or fits
/// another network; Error(kRecipe) where it was compiled for another device, precision or layout; Error(kEnvironment)
/// for another LibTorch.
std::shared_ptr<Network> make_compiled_network(const std::filesystem::path& file, std::shared_ptr<Network> plain);

}  // namespace lockstep
