// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/models/network.h"

namespace lockstep {

/// Which batches of another size than the compiled one are trained by the plain network. With kFew an epoch's last one
/// is, and many in a row are an error, since the file is then for another recipe. With kAll each of them is.
enum class OtherBatches { kFew, kAll };

/// Returns `plain` with compiled training. torch.compile's Inductor compiled the forward and backward pass ahead of
/// time, and python/lockstep_host/passes.py wrote them. Parameters, buffers and their names are those of `plain`.
/// `plain` itself evaluates, and trains batches of another size than the compiled one.
///
/// The file holds machine code. It is loaded and run with the first batch that is trained. forward() then throws:
/// Error(kIo) if there is no such file; Error(kData) if it is not such a file or fits another network; Error(kRecipe)
/// if it was compiled for another device, precision or layout; Error(kEnvironment) for another LibTorch.
std::shared_ptr<Network> make_compiled_network(const std::filesystem::path& file, std::shared_ptr<Network> plain,
                                               OtherBatches others = OtherBatches::kFew);

}  // namespace lockstep
