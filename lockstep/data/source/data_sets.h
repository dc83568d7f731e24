// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/csv_source.h"
#include "lockstep/data/source/folder_source.h"
#include "lockstep/data/source/hdf5_source.h"
#include "lockstep/data/source/image_source.h"
#include "lockstep/data/source/text_source.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep {

/// What a recipe's [data] says of a data set on disk.
struct DataSettings {
  std::string kind;                  ///< idx folder cifar10 cifar100 hdf5 text csv
  std::filesystem::path path;        ///< A folder, or for hdf5, text and csv also a file.
  std::optional<double> split = {};  ///< Held out for validation where the set has no such part: see drawn_split().
  std::uint64_t seed = 0;
  std::optional<std::vector<std::string>> transforms = {};       ///< For kinds with images.
  std::optional<std::vector<std::string>> eval_transforms = {};  ///< Absent: `transforms` without_chance().
  FolderOptions folder = {};
  Hdf5Names hdf5 = {};
  TextOptions text = {};
  CsvOptions csv = {};
};

struct DataSets {
  std::shared_ptr<const SampleSource> train;
  std::shared_ptr<const SampleSource> validation;  ///< Null where there is none.
  std::optional<Normalisation> normalisation;      ///< For the device; of both parts.
  Mixing mixing;                                   ///< Of training batches.
  std::vector<std::string> class_names;            ///< Empty where the set has none.
  std::vector<std::string> notes;                  ///< For the log, once: files left out.
};

/// Opens a data set: its parts by their names (train; val, valid or validation), or drawn by `split`. A set with a
/// validation part of its own leaves `split` unused.
///
/// Throws: Error(kRecipe) where a setting is wrong or does not go with the kind; what the kind's own source throws.
DataSets open_data_sets(const DataSettings& settings);

/// A part of a data set as it lies on disk, before any transform; either `images` or `samples` is set.
struct RawPart {
  std::shared_ptr<const EncodedImages> images;
  std::shared_ptr<const SampleSource> samples;
  std::vector<std::string> class_names;  ///< Empty where the set has none.
  std::vector<std::string> left_out;     ///< Files of a folder that are no images, relative to the part's own.
  std::optional<CsvColumns> columns;     ///< csv: what other parts take over.
};

/// The part "train", "validation" or "test", `train` given for the latter two: they take its classes over. Nothing
/// where the set has no such part. Transforms and `split` are not looked at.
///
/// Throws: as open_data_sets().
std::optional<RawPart> raw_part(const DataSettings& settings, const std::string& split, const RawPart* train = nullptr);

/// One part of it as validation reads it: "train", "validation", or "test" for a set that has one.
///
/// Throws: as open_data_sets(); Error(kData) where there is no such part.
std::shared_ptr<const SampleSource> open_split(const DataSettings& settings, const std::string& split);

}  // namespace lockstep
