// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Opens a data set on disk by its kind, as a recipe's [data] does.
///
///     const auto sets = lockstep::open_data_sets({.kind = "folder",
///                                                 .path = "datasets/ants-and-bees",
///                                                 .split = 0.2,
///                                                 .transforms = {{"random_resized_crop(64)", "flip"}}});
///     lockstep::Loader loader(sets.train, {.global_batch = 64});
///     std::cout << sets.class_names.size() << " classes\n";

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/csv_source.h"
#include "lockstep/data/source/data_schema.h"
#include "lockstep/data/source/folder_source.h"
#include "lockstep/data/source/hdf5_source.h"
#include "lockstep/data/source/image_source.h"
#include "lockstep/data/source/python_source.h"
#include "lockstep/data/source/text_source.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep {

/// The settings of a data set on disk, as in a recipe's [data].
struct DataSettings {
  std::string kind;                  ///< idx folder cifar10 cifar100 hdf5 text csv python
  std::filesystem::path path;        ///< A folder. For hdf5, text and csv it may be a file.
  std::optional<double> split = {};  ///< Samples held out for validation if the set has no such part. See
                                     ///< drawn_split().
  std::uint64_t seed = 0;
  std::optional<std::vector<std::string>> transforms = {};       ///< For kinds with images.
  std::optional<std::vector<std::string>> eval_transforms = {};  ///< If absent, `transforms` without_chance().
  FolderOptions folder = {};
  Hdf5Names hdf5 = {};
  TextOptions text = {};
  CsvOptions csv = {};
  PythonData python = {};
  bool needs_labels = true;  ///< If false, samples without a label are taken too. Their target is then 0.
};

struct DataSets {
  std::shared_ptr<const SampleSource> train;
  std::shared_ptr<const SampleSource> validation;  ///< Null if there is none.
  std::optional<Normalisation> normalisation;      ///< The device applies it, to both parts.
  Mixing mixing;                                   ///< Mixes the samples of training batches.
  std::vector<std::string> class_names;            ///< Empty if the set has none.
  std::vector<std::string> notes;                  ///< Lines for the log, such as files left out.
  DataSchema schema;                               ///< Of the training part.
};

/// Opens a data set. The parts are found by their names on disk (train; val, valid or validation), or drawn at random
/// by `split`. If the set has a validation part of its own, `split` is not used.
///
/// Throws: Error(kRecipe) if a setting is wrong or does not go with the kind; the errors of the kind's own source.
DataSets open_data_sets(const DataSettings& settings);

/// One part of a data set as it is on disk, before any transform. Either `images` or `samples` is set.
struct RawPart {
  std::shared_ptr<const EncodedImages> images;
  std::shared_ptr<const SampleSource> samples;
  std::vector<std::string> class_names;   ///< Empty if the set has none.
  std::vector<std::string> left_out;      ///< Files that are no images, relative to the part's folder.
  std::optional<CsvColumns> columns;      ///< For csv, the columns, which other parts take over.
  std::vector<std::int64_t> labels = {};  ///< The label in training of each label on disk. Empty if they are the same.
};

/// Returns the part "train", "validation" or "test", or nothing if the set has no such part. Pass `train` for the
/// latter two, since they use the classes of the training part. Transforms and `split` are not used.
///
/// Throws: as open_data_sets().
std::optional<RawPart> raw_part(const DataSettings& settings, const std::string& split, const RawPart* train = nullptr);

/// Opens one part as validation reads it. The part is "train", "validation", or, if the set has one, "test".
///
/// Throws: as open_data_sets(); Error(kData) if there is no such part.
std::shared_ptr<const SampleSource> open_split(const DataSettings& settings, const std::string& split);

/// The part of a data set that a trained model is evaluated on.
struct ModelPart {
  /// A part's name. If empty, it is the validation part if the data have one on disk, else all of the data.
  std::string split = {};
  bool is_new = true;  ///< False for the data that the model was trained on. An empty `split` is then "validation".
};

/// Opens data for a model that was trained on other data. Classes, columns and their scale are those of training. All
/// samples of the new data are used, unless `split` names a part of them. The result has `validation` and no `train`.
///
/// Throws: as open_split(); Error(kData) if new data have a class or a column that training lacks, or another input.
DataSets open_for_model(DataSettings settings, const DataSchema& training, const ModelPart& part = {});

}  // namespace lockstep
