// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/format/torch/tensors.h"

namespace lockstep {

/// True if `bytes` begin as a file of torch.save does: as a zip file, or as the pickles that versions before 1.6 wrote.
bool is_torch_file(std::span<const std::byte> bytes);

/// The weights in a file of torch.save (.pt, .pth, .ckpt, .bin), of either kind. No code in the file is run. Tensors
/// are views of `bytes`, which must outlive them. Only tensors that are not contiguous in their storage are copied.
///
/// Every byte that is used is compared with the zip file's checksums, which torch.load does not check.
/// Throws: Error(kData) with `name`, the value found and wanted, as Pickle::read(), ZipFile and torch_tensors() do.
///         Also for a TorchScript module, and for numbers of a big-endian machine.
TorchTensors parse_torch_file(std::span<const std::byte> bytes, const std::string& name);

}  // namespace lockstep
