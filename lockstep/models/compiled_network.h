// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/models/network.h"

namespace lockstep {

/// Returns `plain` with compiled training. torch.compile's Inductor compiled the forward and backward pass ahead of
/// time, and python/compile_model.py wrote them. Parameters, buffers and their names are those of `plain`. `plain`
/// itself evaluates, and trains batches of another size than the compiled one.
///
/// The file holds machine code. It is loaded and run with the first batch that is trained. forward() then throws:
/// Error(kIo) if there is no such file; Error(kData) if the file was not written by python/compile_model.py, or belongs
/// to another network; Error(kRecipe) if the network was compiled for another device, precision or layout;
/// Error(kEnvironment) for another LibTorch.
std::shared_ptr<Network> make_compiled_network(const std::filesystem::path& file, std::shared_ptr<Network> plain);

}  // namespace lockstep
