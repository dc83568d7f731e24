// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/data_sets.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
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

/// The part as it is read: with the transforms of training or of validation.
Source opened(const RawPart& part, const ImageTransforms& transforms) {
  if (part.images) return image_source(part.images, transforms);
  return with_transforms(part.samples, transforms);
}

std::int64_t classes_of(const RawPart& part) {
  return part.images ? static_cast<std::int64_t>(part.class_names.size()) : part.samples->classes();
}

RawPart folder_part(const DataSettings& settings, const fs::path& folder, const std::vector<std::string>& classes) {
  FolderIndex index = folder_index(folder, classes, settings.folder);
  RawPart part{.images = {}, .samples = {}, .class_names = index.classes, .left_out = index.left_out, .columns = {}};
  part.images = folder_images(std::move(index));
  return part;
}

RawPart plain_part(Source source) {
  return {.images = {}, .samples = std::move(source), .class_names = {}, .left_out = {}, .columns = {}};
}

RawPart hdf5_part_of(const DataSettings& settings, const fs::path& file, const std::string& group,
                     std::int64_t classes) {
  Hdf5Part found = hdf5_part(file, group, settings.hdf5, classes);
  if (found.images) found.classes = found.images->classes();
  return {.images = found.images, .samples = found.arrays, .class_names = found.classes, .left_out = {}, .columns = {}};
}

/// What a data set's parts are called on disk.
const std::vector<std::string>& file_stems(const std::string& split) {
  static const std::vector<std::string> train{"train", "training"};
  static const std::vector<std::string> validation{"val", "valid", "validation"};
  static const std::vector<std::string> test{"test"};
  return split == "train" ? train : split == "validation" ? validation : test;
}

/// `path` where it is a file; in a folder, that part's file or sub-folder. The training part may be the path itself.
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

/// A folder that holds only the smaller part of a set, as MNIST's 10 000 test images, is split by `split`.
std::optional<RawPart> idx_part(const DataSettings& settings, const std::string& split, const RawPart* train) {
  const bool has_train = has_idx_split(settings.path, "train");
  const bool has_validation = has_idx_split(settings.path, "validation");
  if (split == "train") {
    const bool is_other = !has_train && has_validation && settings.split;
    return plain_part(idx_folder_source(settings.path, is_other ? "validation" : "train"));
  }
  if (!has_train || !has_validation) return {};
  return plain_part(idx_folder_source(settings.path, "validation", classes_of(*train)));
}

RawPart csv_part(const fs::path& path, const CsvOptions& options, const RawPart* train) {
  CsvTable table = csv_table(path, options, train != nullptr ? &*train->columns : nullptr);
  RawPart part = plain_part(std::move(table.source));
  part.class_names = table.columns.classes;
  part.columns = std::move(table.columns);
  return part;
}

/// A part of the set; nothing where it has none. `train` is given for the others.
std::optional<RawPart> found_part(const DataSettings& settings, const std::string& split, const RawPart* train) {
  const std::string& kind = settings.kind;
  if (kind == "folder") {
    const fs::path folder = split_folder(settings.path, split);
    if (folder.empty() && split != "train") return {};
    return folder_part(settings, folder.empty() ? settings.path : folder,
                       train ? train->class_names : std::vector<std::string>{});
  }
  if (kind == "idx") return idx_part(settings, split, train);
  if (kind == "cifar10" || kind == "cifar100") {
    const CifarKind cifar = kind == "cifar10" ? CifarKind::k10 : CifarKind::k100;
    return plain_part(cifar_source(settings.path, cifar, split == "test" ? "validation" : split));
  }
  if (kind == "hdf5") {
    const auto file = part_path(settings.path, split, {".h5", ".hdf5"});
    const bool is_own_file = file && *file != settings.path;
    const auto group = is_own_file ? std::optional<std::string>("/") : hdf5_group(settings.path, split);
    if (!group) return {};
    return hdf5_part_of(settings, is_own_file ? *file : settings.path, *group, train ? classes_of(*train) : 0);
  }
  if (kind == "csv") {
    const auto path = part_path(settings.path, split, {".csv", ".tsv"});
    if (!path) return {};
    return csv_part(*path, settings.csv, train);
  }
  const auto path = part_path(settings.path, split, {"", ".txt"});
  if (!path) return {};
  return plain_part(text_source(*path, settings.text));
}

void require_settings_that_fit(const DataSettings& settings) {
  const std::vector<std::string> kinds{"idx", "folder", "cifar10", "cifar100", "hdf5", "text", "csv"};
  if (std::ranges::find(kinds, settings.kind) == kinds.end()) {
    const auto nearest = nearest_name(settings.kind, kinds);
    throw Error(ErrorKind::kRecipe, "data.kind is '" + settings.kind + "', want one of: " + joined(kinds, ", "),
                nearest ? "is it '" + *nearest + "'?" : "");
  }
  const bool has_images = settings.kind != "text" && settings.kind != "csv";
  if (!has_images && (settings.transforms || settings.eval_transforms)) {
    throw Error(ErrorKind::kRecipe,
                "data.transforms is set for data.kind = '" + settings.kind + "', want it for images only",
                "leave it out");
  }
}

}  // namespace

DataSets open_data_sets(const DataSettings& settings) {
  require_settings_that_fit(settings);
  const TransformPair transforms = transforms_of(settings);
  DataSets sets;
  const RawPart train = *found_part(settings, "train", nullptr);
  sets.train = opened(train, transforms.train);
  require_images(sets.train->fields().at(0), transforms.train);
  sets.class_names = train.class_names;
  add_note(settings, "train", train, sets.notes);
  if (const auto validation = found_part(settings, "validation", &train)) {
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
  require_settings_that_fit(settings);
  const TransformPair transforms = transforms_of(settings);
  if (split == "validation") {
    DataSets sets = open_data_sets(settings);
    if (!sets.validation) refuse_part(settings, split);
    return sets.validation;
  }
  const RawPart train = *found_part(settings, "train", nullptr);
  if (split == "train") {
    Source all = opened(train, transforms.validation);
    if (!settings.split || found_part(settings, "validation", &train)) return all;
    const std::int64_t samples = all->size();
    return subset(std::move(all), drawn_split(samples, *settings.split, settings.seed).train);
  }
  const auto part = found_part(settings, split, &train);
  if (!part) refuse_part(settings, split);
  return opened(*part, transforms.validation);
}

std::optional<RawPart> raw_part(const DataSettings& settings, const std::string& split, const RawPart* train) {
  require_split(split);
  require_settings_that_fit(settings);
  LOCKSTEP_ASSERT(split == "train" || train != nullptr);
  return found_part(settings, split, train);
}

}  // namespace lockstep
