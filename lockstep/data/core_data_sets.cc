// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/core_data_sets.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/core_sources.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

using Source = std::shared_ptr<const SampleSource>;

/// One part of a data set, before it is known how it is read: with the transforms of training or of validation.
using Opener = std::function<Source(const ImageTransforms&)>;

struct Part {
  Opener open;
  std::vector<std::string> class_names;
  std::string note;
  std::int64_t classes = 0;
};

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

Source with_transforms(const Source& source, const ImageTransforms& transforms) {
  return transforms.steps.empty() ? source : Source(transformed(source, transforms));
}

Part folder_part(const DataSettings& settings, const fs::path& folder, const std::vector<std::string>& classes) {
  FolderIndex index = folder_index(folder, classes, settings.folder);
  Part part{.open = {}, .class_names = index.classes, .note = left_out_note(index), .classes = 0};
  part.open = [images = folder_images(std::move(index))](const ImageTransforms& transforms) -> Source {
    return image_source(images, transforms);
  };
  return part;
}

Part plain_part(const Source& source) {
  const std::int64_t classes = source->classes();
  return {.open = [source](const ImageTransforms& transforms) { return with_transforms(source, transforms); },
          .class_names = {},
          .note = {},
          .classes = classes};
}

Part hdf5_part_of(const DataSettings& settings, const fs::path& file, const std::string& group, std::int64_t classes) {
  const Hdf5Part found = hdf5_part(file, group, settings.hdf5, classes);
  if (!found.images) {
    Part part = plain_part(found.arrays);
    part.class_names = found.classes;
    return part;
  }
  return {.open = [images = found.images](const ImageTransforms& transforms) -> Source {
            return image_source(images, transforms);
          },
          .class_names = found.images->classes(),
          .note = {},
          .classes = static_cast<std::int64_t>(found.images->classes().size())};
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

/// A folder that holds only the smaller part of a set, as MNIST's 10 000 test images, is split by `split`.
std::optional<Part> idx_part(const DataSettings& settings, const std::string& split, const Part* train) {
  const bool has_train = has_idx_split(settings.path, "train");
  const bool has_validation = has_idx_split(settings.path, "validation");
  if (split == "train") {
    const bool is_other = !has_train && has_validation && settings.split;
    return plain_part(idx_folder_source(settings.path, is_other ? "validation" : "train"));
  }
  if (!has_train || !has_validation) return {};
  return plain_part(idx_folder_source(settings.path, "validation", train->classes));
}

/// A part of the set; nothing where it has none. `train` is given for the others.
std::optional<Part> found_part(const DataSettings& settings, const std::string& split, const Part* train) {
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
    return hdf5_part_of(settings, is_own_file ? *file : settings.path, *group, train ? train->classes : 0);
  }
  const auto path =
      part_path(settings.path, split,
                kind == "csv" ? std::vector<std::string>{".csv", ".tsv"} : std::vector<std::string>{"", ".txt"});
  if (!path) return {};
  return plain_part(text_source(*path, settings.text));
}

/// A validation table takes over the training table's columns, classes and scale.
DataSets csv_sets(const DataSettings& settings) {
  DataSets sets;
  const std::vector<std::string> endings{".csv", ".tsv"};
  CsvTable train = csv_table(*part_path(settings.path, "train", endings), settings.csv);
  sets.train = std::move(train.source);
  sets.class_names = train.columns.classes;
  if (const auto path = part_path(settings.path, "validation", endings)) {
    sets.validation = csv_table(*path, settings.csv, &train.columns).source;
  }
  return sets;
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
  Opener reopened;
  if (settings.kind == "csv") {
    sets = csv_sets(settings);
    reopened = [train = sets.train](const ImageTransforms&) { return train; };
  } else {
    const Part train = *found_part(settings, "train", nullptr);
    sets.train = train.open(transforms.train);
    sets.class_names = train.class_names;
    if (!train.note.empty()) sets.notes.push_back(train.note);
    if (const auto validation = found_part(settings, "validation", &train)) {
      sets.validation = validation->open(transforms.validation);
      if (!validation->note.empty()) sets.notes.push_back(validation->note);
    }
    reopened = train.open;
  }
  sets.normalisation = transforms.train.normalisation;
  sets.mixing = transforms.train.mixing;
  if (sets.validation || !settings.split) return sets;
  Split split = drawn_split(sets.train->size(), *settings.split, settings.seed);
  sets.validation = subset(reopened(transforms.validation), std::move(split.validation));
  sets.train = subset(sets.train, std::move(split.train));
  return sets;
}

std::shared_ptr<const SampleSource> open_split(const DataSettings& settings, const std::string& split) {
  if (split != "train" && split != "validation" && split != "test") {
    throw Error(ErrorKind::kUsage, "split is '" + split + "', want train, validation or test");
  }
  require_settings_that_fit(settings);
  const TransformPair transforms = transforms_of(settings);
  if (split == "validation") {
    DataSets sets = open_data_sets(settings);
    if (!sets.validation) refuse_part(settings, split);
    return sets.validation;
  }
  if (settings.kind == "csv") {
    const std::vector<std::string> endings{".csv", ".tsv"};
    CsvTable train = csv_table(*part_path(settings.path, "train", endings), settings.csv);
    if (split == "train") return std::move(train.source);
    const auto path = part_path(settings.path, split, endings);
    if (!path) refuse_part(settings, split);
    return csv_table(*path, settings.csv, &train.columns).source;
  }
  const Part train = *found_part(settings, "train", nullptr);
  if (split == "train") {
    Source all = train.open(transforms.validation);
    if (!settings.split || found_part(settings, "validation", &train)) return all;
    const std::int64_t samples = all->size();
    return subset(std::move(all), drawn_split(samples, *settings.split, settings.seed).train);
  }
  const auto part = found_part(settings, split, &train);
  if (!part) refuse_part(settings, split);
  return part->open(transforms.validation);
}

}  // namespace lockstep
