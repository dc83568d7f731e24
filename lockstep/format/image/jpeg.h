// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "lockstep/format/image/codec.h"

namespace lockstep {

/// Throws: Error(kData), as ImageDecoder.
std::unique_ptr<ImageDecoder::Codec> jpeg_codec(std::span<const std::byte> bytes, const std::string& name);

}  // namespace lockstep
