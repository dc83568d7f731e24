// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/cifar_files.h"

namespace lockstep {

/// Opens CIFAR-10 or -100, in the binary form or as torchvision's pickles. Samples have "input" U8 [3, 32, 32] and
/// "target" I64 []. `path` is the folder with the files, or the folder in which the archive was unpacked. `split` is
/// "train" or "validation" (the test images).
///
/// Throws: Error(kData) if a file is missing or damaged, Error(kIo) if it cannot be read.
std::unique_ptr<SampleSource> cifar_source(const std::filesystem::path& path, CifarKind kind, const std::string& split);

}  // namespace lockstep
