// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Text for a masked language model, byte by byte.
///
///     std::shared_ptr source = lockstep::text_source("corpus", {.window = 128});
///     lockstep::Loader loader(source, {.global_batch = 32});
///     auto bert = lockstep::make_network({.name = "bert", .input_shape = {128}, .classes =
///     lockstep::kTextVocabulary});

#include <cstdint>
#include <filesystem>
#include <memory>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// How windows of bytes are masked, as BERT does. Each position is chosen with probability `share`. Of those chosen, 80
/// % become the mask, 10 % a random byte, and 10 % stay. The target is the original byte at a chosen position, and
/// kNotMasked elsewhere.
struct TextOptions {
  std::int64_t window = 128;  ///< Length of one sample, in bytes.
  double share = 0.15;
};

/// Ids in a text sample. Bytes are 0 to 255, and kMaskId is the mask.
inline constexpr std::int64_t kMaskId = 256;
inline constexpr std::int64_t kTextVocabulary = 257;
/// The target of a position that is not masked. It is PyTorch's ignore_index.
inline constexpr std::int64_t kNotMasked = -100;

/// Opens text as samples with "input" I64 [window] and "target" I64 [window]. classes() is kTextVocabulary.
///
/// `path` is a file or a folder. A folder's files, sub-folders included, follow one another in the order of their names
/// with a 0 byte between them. A link to another file of the set is ignored. Bytes at the end that fill no window are
/// not used.
///
/// Masks are drawn from (seed, epoch, sample). At least one position of each sample is masked.
/// Throws: Error(kData) if there is not one window of text; Error(kIo) if a file cannot be read; Error(kRecipe) for an
///         option out of range.
std::unique_ptr<SampleSource> text_source(const std::filesystem::path& path, const TextOptions& options);

}  // namespace lockstep
