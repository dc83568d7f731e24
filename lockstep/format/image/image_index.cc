// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/image/image_index.h"

#include "lockstep/base/error.h"

namespace lockstep {

void check_image_index(std::span<const std::uint64_t> index, std::uint64_t bytes, const std::string& name) {
  LOCKSTEP_ASSERT(index.size() % 2 == 0);
  for (std::size_t i = 0; i < index.size(); i += 2) {
    const std::uint64_t offset = index[i];
    const std::uint64_t length = index[i + 1];
    const std::string image = name + ": image #" + std::to_string(i / 2);
    if (length == 0) {
      throw Error(ErrorKind::kData, image + " is empty", "the file was not written to its end: convert it again");
    }
    if (offset > bytes || length > bytes - offset) {
      throw Error(ErrorKind::kData,
                  image + " is bytes " + std::to_string(offset) + " + " + std::to_string(length) +
                      ", want them within the " + std::to_string(bytes) + " there are",
                  "copy or make the file again");
    }
  }
}

}  // namespace lockstep
