// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/source/image_source.h"

namespace lockstep {

struct FolderOptions {
  /// A file is an image where its first bytes say so, whatever its name. Off: where it is called .jpg .jpeg .png; then
  /// no file is opened before it is read, which a data set of a million files on a shared file system asks for.
  bool by_content = true;
  /// A file that is no image is an error, and not just left out.
  bool is_strict = false;
};

struct FolderImage {
  std::string path;  ///< Relative to the root.
  std::int64_t label = 0;
};

/// Images in one folder for each class, sub-folders included: the order of classes and of files is that of
/// torchvision's ImageFolder. Names that begin with a dot are passed over.
struct FolderIndex {
  std::filesystem::path root;
  std::vector<std::string> classes;
  std::vector<FolderImage> images;
  std::vector<std::string> left_out;  ///< Files that are no images, relative to the root.
};

/// Looks through `root`. `classes` are those of the training part, where this is another one; empty: those found.
///
/// Throws: Error(kData) where there is no such folder, no class folder in it, a class without an image, a class that
/// training lacks, or, if asked to, a file that is no image; Error(kIo).
FolderIndex folder_index(const std::filesystem::path& root, const std::vector<std::string>& classes = {},
                         const FolderOptions& options = {});

std::shared_ptr<const EncodedImages> folder_images(FolderIndex index);

/// The folder of one part of a data set below `root`, by the names in use: train, training; val, valid, validation;
/// test. Empty where there is none.
std::filesystem::path split_folder(const std::filesystem::path& root, const std::string& split);

/// One line for the log on what was left out: "set/train: 1 file is no image and left out: 'ants/a.gif'".
std::string left_out_note(const std::filesystem::path& root, const std::vector<std::string>& left_out);

}  // namespace lockstep
