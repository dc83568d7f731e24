// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

/// Checks the index of encoded images in `bytes` bytes. `index` holds the offset and the length of each image in turn,
/// and the images are contiguous. `name` is for messages.
///
/// Throws: Error(kData) naming the first image that is empty or not within the bytes.
void check_image_index(std::span<const std::uint64_t> index, std::uint64_t bytes, const std::string& name);

}  // namespace lockstep
