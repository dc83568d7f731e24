// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/format/torch/tensors.h"

namespace lockstep {

/// True if `bytes` start as torch.save's files do, as a zip file or as the two pickles of before torch 1.6.
bool is_torch_file(std::span<const std::byte> bytes);

/// The weights in a file of torch.save (.pt, .pth, .ckpt, .bin), of either kind. Nothing in it is run. Tensors are
/// views of `bytes`, which must outlive them, but for those that do not lie row by row in their storage.
///
/// Every byte used is held against the zip file's checksums. torch.load does not look at them.
/// Throws: Error(kData) with `name`, the value found and wanted: what Pickle::read(), ZipFile and torch_tensors()
/// say, a TorchScript module, numbers of a big-endian machine.
TorchTensors parse_torch_file(std::span<const std::byte> bytes, const std::string& name);

}  // namespace lockstep
