// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Images in one folder for each class, as torchvision's ImageFolder reads them.
///
///     auto images = lockstep::folder_images(lockstep::folder_index("datasets/ants-and-bees/train"));
///     std::cout << images->size() << " images of " << images->classes().size() << " classes\n";
///     std::shared_ptr source = lockstep::image_source(images, {.steps = {lockstep::step::Resize{64, 64}}});

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/source/image_source.h"

namespace lockstep {

struct FolderOptions {
  /// True if the first bytes of a file decide whether it is an image. False if its name does, by .jpg, .jpeg or .png.
  /// Then listing opens no file, which saves time with a million files on a shared file system.
  bool by_content = true;
  /// True if a file that is not an image is an error. Otherwise it is left out.
  bool is_strict = false;
  /// If false, images need not be in class folders. An image directly in the root has label 0, and a class may have no
  /// images.
  bool needs_labels = true;
};

struct FolderImage {
  std::string path;  ///< The file, relative to the root.
  std::int64_t label = 0;
};

/// Images in one folder for each class, sub-folders included. Classes and files are in the order of torchvision's
/// ImageFolder. Names that begin with a dot are ignored.
struct FolderIndex {
  std::filesystem::path root;
  std::vector<std::string> classes;
  std::vector<FolderImage> images;
  std::vector<std::string> left_out;  ///< Files that are no images, relative to the root.
};

/// Lists the images below `root`. For another part, pass the training part's `classes`. If `classes` is empty, the
/// folders found are the classes.
///
/// Throws: Error(kData) if there is no such folder, no class folder in it, a class without an image, a class that
/// training lacks, or, with is_strict, a file that is not an image; Error(kIo) if a folder or a file cannot be read.
FolderIndex folder_index(const std::filesystem::path& root, const std::vector<std::string>& classes = {},
                         const FolderOptions& options = {});

std::shared_ptr<const EncodedImages> folder_images(FolderIndex index);

/// Returns the folder of one part of a data set below `root`. Its name may be train or training; val, valid or
/// validation; test. Returns an empty path if there is no such folder.
std::filesystem::path split_folder(const std::filesystem::path& root, const std::string& split);

/// Returns one line for the log, such as "set/train: 1 file is no image and left out: 'ants/a.gif'".
std::string left_out_note(const std::filesystem::path& root, const std::vector<std::string>& left_out);

}  // namespace lockstep
