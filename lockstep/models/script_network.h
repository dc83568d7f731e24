// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/models/network.h"

namespace lockstep {

/// Loads a TorchScript model, as python/export_model.py writes it. Its parameters and buffers keep their Python names,
/// so weights trained here can be loaded back into the Python class.
///
/// A model that would silently train wrong is refused at load. It is refused if tracing has fixed the mode of a layer
/// (dropout, batch or instance normalisation), if parameters were frozen into constants, or if the output is not [N,
/// classes] for the data's samples, or [N, length, classes] for text. Throws: Error(kIo) if the file cannot be read;
/// Error(kData) with the reason if the model is refused.
std::shared_ptr<Network> make_script_network(const std::filesystem::path& file, const NetworkOptions& options);

}  // namespace lockstep
