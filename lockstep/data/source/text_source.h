// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// How windows of bytes are masked, as BERT does: of the positions, each with probability `share`, 80 % become the
/// mask, 10 % a random byte, 10 % stay; the target is the byte there, and kNotMasked elsewhere.
struct TextOptions {
  std::int64_t window = 128;  ///< Bytes of one sample.
  double share = 0.15;
};

/// Ids in a text sample: bytes are 0 to 255, then these.
inline constexpr std::int64_t kMaskId = 256;
inline constexpr std::int64_t kTextVocabulary = 257;
/// In a target: PyTorch's ignore_index.
inline constexpr std::int64_t kNotMasked = -100;

/// Text for a masked language model, byte by byte: "input" I64 [window], "target" I64 [window]. `path` is a file or a
/// folder, whose files, sub-folders included, follow one another in the order of their names with a 0 byte between; a
/// link to another file of the set is passed over. What is left at the end and fills no window is not used. classes()
/// is kTextVocabulary.
///
/// Masks are drawn from (seed, epoch, sample); at least one position of each sample is masked.
/// Throws: Error(kData) where there is not one window of text, Error(kIo), Error(kRecipe) for an option out of range.
std::unique_ptr<SampleSource> text_source(const std::filesystem::path& path, const TextOptions& options);

}  // namespace lockstep
