// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/cifar_files.h"

namespace lockstep {

/// CIFAR-10 or -100, binary or as torchvision's pickles: "input" U8 [3, 32, 32], "target" I64 []. `path` is the folder
/// of the files, or the one that the archive was unpacked in. `split` is "train" or "validation" (the test images).
///
/// Throws: Error(kData) where a file is missing or damaged, Error(kIo).
std::unique_ptr<SampleSource> cifar_source(const std::filesystem::path& path, CifarKind kind, const std::string& split);

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

/// A table: "input" F32 [columns], and "target" I64 [] for classes or F32 [1] for a number.
struct CsvOptions {
  std::string label = {};       ///< The column of targets; empty: the last.
  bool is_regression = false;   ///< The target is a number.
  bool is_standardised = true;  ///< Columns are brought to mean 0 and standard deviation 1, both of the training table.
};

/// What a validation table takes over from the training table.
struct CsvColumns {
  std::vector<std::string> names;  ///< Of the inputs, in order.
  std::string label;
  std::vector<std::string> classes;  ///< Values of the label column: numbers by size, then texts by name.
  std::vector<float> mean;
  std::vector<float> std;
};

struct CsvTable {
  std::unique_ptr<SampleSource> source;
  CsvColumns columns;
};

/// Reads a table whose first line names the columns; fields are separated by commas, or by semicolons or tabs where the
/// first line has those and no comma, and may be quoted. `training` is given for a validation table.
///
/// Throws: Error(kData) with line and column: not a number, too few or many fields, a class that training lacks, no
/// such column, no rows; Error(kIo).
CsvTable csv_table(const std::filesystem::path& path, const CsvOptions& options, const CsvColumns* training = nullptr);

}  // namespace lockstep
