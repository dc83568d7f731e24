// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/models/network.h"

namespace lockstep {

/// A TorchScript model, as python/export_model.py writes it, with its parameters and buffers under their Python names:
/// trained here, its weights go back into the Python class.
///
/// What would train silently wrong is refused at load: layers whose mode was fixed when they were traced (dropout,
/// batch and instance normalisation), parameters that were frozen into constants, and an output that is not [N,
/// classes] for the data's samples, or [N, length, classes] for text. Throws: Error(kIo) where the file cannot be read;
/// Error(kData) with the fact otherwise.
std::shared_ptr<Network> make_script_network(const std::filesystem::path& file, const NetworkOptions& options);

}  // namespace lockstep
