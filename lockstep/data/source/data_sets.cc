// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/data_sets.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/data/source/cifar_source.h"
#include "lockstep/data/source/idx_source.h"
#include "lockstep/data/source/sources.h"
#include "lockstep/data/transform/image_check.h"
#include "lockstep/data/transform/transform_list.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

using Source = std::shared_ptr<const SampleSource>;

struct TransformPair {
  ImageTransforms train;
  ImageTransforms validation;
};

TransformPair transforms_of(const DataSettings& settings) {
  TransformPair pair;
  pair.train = parsed_transforms(settings.transforms.value_or(std::vector<std::string>{}), "data.transforms");
  if (!settings.eval_transforms) {
    pair.validation = without_chance(pair.train);
    return pair;
  }
  pair.validation = parsed_transforms(*settings.eval_transforms, "data.eval_transforms");
  const Mixing& mixing = pair.validation.mixing;
  if (pair.validation.is_random() || mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0) {
    throw Error(ErrorKind::kRecipe, "data.eval_transforms has a random transform, want the same pixels each time",
                "resize, center_crop and normalize are for validation");
  }
  if (pair.validation.normalisation && pair.validation.normalisation != pair.train.normalisation) {
    throw Error(ErrorKind::kRecipe, "data.eval_transforms normalises otherwise than data.transforms",
                "the network sees one scale only: write the same normalize in both, or in data.transforms alone");
  }
  return pair;
}

[[noreturn]] void refuse_part(const DataSettings& settings, const std::string& split) {
  throw Error(ErrorKind::kData, settings.path.string() + ": no " + split + " part in it",
              "a data set of kind '" + settings.kind + "' has it as " + split + "/, or set data.split to draw one");
}

void require_split(const std::string& split) {
  if (split == "train" || split == "validation" || split == "test") return;
  throw Error(ErrorKind::kUsage, "split is '" + split + "', want train, validation or test");
}

Source with_transforms(const Source& source, const ImageTransforms& transforms) {
  return transforms.steps.empty() ? source : Source(transformed(source, transforms));
}

/// Returns a source of the part's samples with these transforms.
Source opened(const RawPart& part, const ImageTransforms& transforms) {
  Source source =
      part.images ? Source(image_source(part.images, transforms)) : with_transforms(part.samples, transforms);
  if (part.labels.empty()) return source;
  return relabelled(std::move(source), part.labels, static_cast<std::int64_t>(part.class_names.size()));
}

std::int64_t classes_of(const RawPart& part) {
  return part.images ? static_cast<std::int64_t>(part.class_names.size()) : part.samples->classes();
}

/// Returns the schema without its fields, since these depend on the transforms.
DataSchema schema_of(const RawPart& part) {
  return {.fields = {}, .classes = classes_of(part), .class_names = part.class_names, .columns = part.columns};
}

RawPart folder_part(const DataSettings& settings, const fs::path& folder, const std::vector<std::string>& classes) {
  FolderOptions options = settings.folder;
  options.needs_labels = settings.needs_labels;
  FolderIndex index = folder_index(folder, classes, options);
  RawPart part{.images = {}, .samples = {}, .class_names = index.classes, .left_out = index.left_out, .columns = {}};
  part.images = folder_images(std::move(index));
  return part;
}

RawPart plain_part(Source source) {
  return {.images = {}, .samples = std::move(source), .class_names = {}, .left_out = {}, .columns = {}};
}

/// Returns for each class named in a file its label in training. Empty if file and training have the same classes.
std::vector<std::int64_t> labels_in_training(const fs::path& file, const std::vector<std::string>& names,
                                             const std::vector<std::string>& of_training) {
  std::vector<std::int64_t> labels;
  if (names.empty() || of_training.empty() || names == of_training) return labels;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(of_training, name);
    if (found == of_training.end()) {
      throw Error(
          ErrorKind::kData,
          file.string() + ": has the class '" + name + "', which training lacks; it has " + joined(of_training, ", "),
          "name the classes as in training, or leave /classes out");
    }
    labels.push_back(found - of_training.begin());
  }
  return labels;
}

RawPart hdf5_part_of(const DataSettings& settings, const fs::path& file, const std::string& group,
                     const DataSchema* training) {
  Hdf5Names names = settings.hdf5;
  names.needs_target = settings.needs_labels;
  Hdf5Part found = hdf5_part(file, group, names, training ? training->classes : 0);
  std::vector<std::int64_t> labels;
  if (training) labels = labels_in_training(file, found.classes, training->class_names);
  if (!labels.empty()) {
    found.classes = training->class_names;
  } else if (found.images) {
    found.classes = found.images->classes();
  }
  return {.images = found.images,
          .samples = found.arrays,
          .class_names = found.classes,
          .left_out = {},
          .columns = {},
          .labels = std::move(labels)};
}

/// Returns the names that a part of a data set may have on disk.
const std::vector<std::string>& file_stems(const std::string& split) {
  static const std::vector<std::string> train{"train", "training"};
  static const std::vector<std::string> validation{"val", "valid", "validation"};
  static const std::vector<std::string> test{"test"};
  return split == "train" ? train : split == "validation" ? validation : test;
}

/// Returns `path` if it is a file, and a part's file or sub-folder if it is a folder. The training part may be the path
/// itself.
std::optional<fs::path> part_path(const fs::path& path, const std::string& split,
                                  const std::vector<std::string>& endings) {
  std::error_code ignored;
  for (const std::string& stem : file_stems(split)) {
    for (const std::string& ending : endings) {
      if (fs::exists(path / (stem + ending), ignored)) return path / (stem + ending);
    }
  }
  if (split == "train") return path;
  return {};
}

void add_note(const DataSettings& settings, const std::string& split, const RawPart& part,
              std::vector<std::string>& notes) {
  if (part.left_out.empty()) return;
  const fs::path folder = split_folder(settings.path, split);
  notes.push_back(left_out_note(folder.empty() ? settings.path : folder, part.left_out));
}

/// Opens a part of a folder of IDX files. If the folder has only the smaller file of a set, such as MNIST's 10 000 test
/// images, these are split by `split`.
std::optional<RawPart> idx_part(const DataSettings& settings, const std::string& split, const DataSchema* training) {
  const bool has_train = has_idx_split(settings.path, "train");
  const bool has_validation = has_idx_split(settings.path, "validation");
  if (split == "train") {
    const bool is_other = !has_train && has_validation && (settings.split || training);
    return plain_part(idx_folder_source(settings.path, is_other ? "validation" : "train",
                                        training ? training->classes : 0, settings.needs_labels));
  }
  if (!has_train || !has_validation) return {};
  return plain_part(idx_folder_source(settings.path, "validation", training->classes, settings.needs_labels));
}

const std::vector<std::string>& table_endings() {
  static const std::vector<std::string> endings{".csv", ".tsv"};
  return endings;
}

RawPart csv_part(const fs::path& path, const DataSettings& settings, const DataSchema* training) {
  CsvOptions options = settings.csv;
  options.needs_label = settings.needs_labels;
  options.seed = settings.seed;
  const bool is_split =
      training == nullptr && settings.split && !part_path(settings.path, "validation", table_endings());
  if (is_split) options.held_out = *settings.split;
  CsvTable table = csv_table(path, options, training != nullptr ? &training->columns.value() : nullptr);
  RawPart part = plain_part(std::move(table.source));
  part.class_names = table.columns.classes;
  part.columns = std::move(table.columns);
  return part;
}

/// Returns a part of the data set, or nothing if the set has no such part. `training` is the training part's schema,
/// and null for the training part itself.
std::optional<RawPart> found_part(const DataSettings& settings, const std::string& split, const DataSchema* training) {
  const std::string& kind = settings.kind;
  if (kind == "folder") {
    const fs::path folder = split_folder(settings.path, split);
    if (folder.empty() && split != "train") return {};
    return folder_part(settings, folder.empty() ? settings.path : folder,
                       training ? training->class_names : std::vector<std::string>{});
  }
  if (kind == "idx") return idx_part(settings, split, training);
  if (kind == "cifar10" || kind == "cifar100") {
    const CifarKind cifar = kind == "cifar10" ? CifarKind::k10 : CifarKind::k100;
    return plain_part(cifar_source(settings.path, cifar, split == "test" ? "validation" : split));
  }
  if (kind == "hdf5") {
    const auto file = part_path(settings.path, split, {".h5", ".hdf5"});
    const bool is_own_file = file && *file != settings.path;
    const auto group = is_own_file ? std::optional<std::string>("/") : hdf5_group(settings.path, split);
    if (!group) return {};
    return hdf5_part_of(settings, is_own_file ? *file : settings.path, *group, training);
  }
  if (kind == "python") {
    auto found = python_part(settings.python, split, settings.seed);
    if (!found) return {};
    auto part = plain_part(std::move(found->samples));
    part.class_names = std::move(found->class_names);
    return part;
  }
  if (kind == "csv") {
    const auto path = part_path(settings.path, split, table_endings());
    if (!path) return {};
    return csv_part(*path, settings, training);
  }
  const auto path = part_path(settings.path, split, {"", ".txt"});
  if (!path) return {};
  return plain_part(text_source(*path, settings.text));
}

/// Throws: Error(kRecipe) or Error(kUsage) for settings that do not fit each other, and Error(kIo) for data of which
/// the system refuses a look.
void check_settings(const DataSettings& settings) {
  const std::vector<std::string> kinds{"idx", "folder", "cifar10", "cifar100", "hdf5", "text", "csv", "python"};
  if (std::ranges::find(kinds, settings.kind) == kinds.end()) {
    const auto nearest = nearest_name(settings.kind, kinds);
    throw Error(ErrorKind::kRecipe, "data.kind is '" + settings.kind + "', want one of: " + joined(kinds, ", "),
                nearest ? "is it '" + *nearest + "'?" : "");
  }
  if (settings.kind == "python" && settings.python.function.empty()) {
    throw Error(ErrorKind::kUsage, "data.kind is 'python' without a function, want a recipe that names one",
                "write data.kind = \"python:FILE.py:FUNCTION\" in a recipe, and name the recipe");
  }
  const bool has_images = settings.kind != "text" && settings.kind != "csv" && settings.kind != "python";
  if (!has_images && (settings.transforms || settings.eval_transforms)) {
    throw Error(ErrorKind::kRecipe,
                "data.transforms is set for data.kind = '" + settings.kind + "', want it for images only",
                "leave it out");
  }
  check_may_read(settings.path);
}

/// Returns one part with the transforms of validation, and with the classes and columns of training.
Source opened_split(const DataSettings& settings, const std::string& split, const DataSchema& training) {
  const TransformPair transforms = transforms_of(settings);
  if (split != "train") {
    if (const auto part = found_part(settings, split, &training)) return opened(*part, transforms.validation);
    if (split != "validation" || !settings.split) refuse_part(settings, split);
  }
  Source all = opened(found_part(settings, "train", &training).value(), transforms.validation);
  if (!settings.split || (split == "train" && found_part(settings, "validation", &training))) return all;
  Split drawn = drawn_split(all->size(), *settings.split, settings.seed);
  return subset(std::move(all), std::move(split == "train" ? drawn.train : drawn.validation));
}

/// True if the recipe decides the size of an input. It does for text, and for images whose transforms give all of them
/// one size.
bool has_chosen_size(const DataSettings& settings, const ImageTransforms& transforms) {
  return settings.kind == "text" || (!transforms.steps.empty() && transforms.output_size({}).has_value());
}

}  // namespace

DataSets open_data_sets(const DataSettings& settings) {
  check_settings(settings);
  const TransformPair transforms = transforms_of(settings);
  DataSets sets;
  const RawPart train = *found_part(settings, "train", nullptr);
  sets.train = opened(train, transforms.train);
  require_images(sets.train->fields().at(0), transforms.train);
  sets.class_names = train.class_names;
  sets.schema = schema_of(train);
  sets.schema.fields = sets.train->fields();
  add_note(settings, "train", train, sets.notes);
  if (const auto validation = found_part(settings, "validation", &sets.schema)) {
    sets.validation = opened(*validation, transforms.validation);
    add_note(settings, "validation", *validation, sets.notes);
  }
  sets.normalisation = transforms.train.normalisation;
  sets.mixing = transforms.train.mixing;
  if (sets.validation || !settings.split) return sets;
  Split split = drawn_split(sets.train->size(), *settings.split, settings.seed);
  sets.validation = subset(opened(train, transforms.validation), std::move(split.validation));
  sets.train = subset(sets.train, std::move(split.train));
  return sets;
}

std::shared_ptr<const SampleSource> open_split(const DataSettings& settings, const std::string& split) {
  require_split(split);
  check_settings(settings);
  return opened_split(settings, split, schema_of(*found_part(settings, "train", nullptr)));
}

DataSets open_for_model(DataSettings settings, const DataSchema& training, const ModelPart& part) {
  check_settings(settings);
  if (settings.kind == "csv" && !training.columns) {
    throw Error(ErrorKind::kData, "data.kind is 'csv', but the model was not trained on a table",
                "show it data of the kind that it was trained on");
  }
  settings.csv.is_strict = part.is_new;
  const TransformPair transforms = transforms_of(settings);
  DataSets sets;
  sets.normalisation = transforms.train.normalisation;
  sets.class_names = training.class_names;
  sets.schema = training;
  if (!part.split.empty() || !part.is_new) {
    const std::string split = part.split.empty() ? "validation" : part.split;
    require_split(split);
    sets.validation = opened_split(settings, split, training);
  } else {
    auto found = found_part(settings, "validation", &training);
    if (!found) found = found_part(settings, "train", &training);
    sets.validation = opened(*found, transforms.validation);
    add_note(settings, "validation", *found, sets.notes);
  }
  require_fit(*sets.validation, training, settings.path.string(), has_chosen_size(settings, transforms.validation));
  return sets;
}

std::optional<RawPart> raw_part(const DataSettings& settings, const std::string& split, const RawPart* train) {
  require_split(split);
  check_settings(settings);
  LOCKSTEP_ASSERT(split == "train" || train != nullptr);
  if (train == nullptr) {
    DataSettings whole = settings;
    // A table is not split here. All its rows are used, however few, since they are evaluated and not trained on.
    if (settings.kind == "csv") whole.split.reset();
    return found_part(whole, split, nullptr);
  }
  const DataSchema training = schema_of(*train);
  return found_part(settings, split, &training);
}

}  // namespace lockstep
