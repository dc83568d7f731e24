// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/folder_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/data/source/image_source.h"
#include "lockstep/format/image/image.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Reads into `to` until it is full or the file ends. Returns the number of bytes read.
std::size_t read_up_to(const FileDescriptor& file, std::span<std::byte> to, const fs::path& path) {
  std::size_t filled = 0;
  while (filled < to.size()) {
    const ssize_t got = ::read(file.get(), to.data() + filled, to.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", path, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

FileDescriptor opened(const fs::path& path) {
  // If a named pipe has the file's name, a plain open() would wait for a writer. With O_NONBLOCK it returns, and the
  // pipe is an error.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw io_error("open", path, errno);
  return file;
}

bool is_image_by_content(const fs::path& path) {
  const FileDescriptor file = opened(path);
  std::array<std::byte, kImageKindBytes> first{};
  const std::size_t bytes = read_up_to(file, first, path);
  return image_kind(std::span(first).first(bytes)) != ImageKind::kUnknown;
}

bool is_image_by_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<std::string> sorted_folders(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(root, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    if (!is_hidden(entry->path()) && entry->is_directory()) names.push_back(entry->path().filename().string());
  }
  if (failure) throw io_error("list", root, failure.value());
  std::ranges::sort(names);
  return names;
}

/// Returns a folder's plain files, sub-folders included, in the order of the folders' paths and then of names.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> found;
  std::error_code failure;
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  fs::recursive_directory_iterator entry(folder, kFollow, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      found.emplace_back(entry->path().parent_path().string(), entry->path().filename().string());
    }
  }
  if (failure) throw io_error("list", folder, failure.value());
  std::ranges::sort(found);
  std::vector<fs::path> files;
  files.reserve(found.size());
  for (const auto& [parent, name] : found) files.push_back(fs::path(parent) / name);
  return files;
}

std::string quoted_list(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i > 0 ? ", '" : "'") + names[i] + "'";
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

std::string files_text(std::size_t count) { return count == 1 ? "1 file is" : std::to_string(count) + " files are"; }

/// Returns the classes found in `root`, and checks them against those of training.
std::vector<std::string> checked_classes(const fs::path& root, const std::vector<std::string>& of_training,
                                         bool needs_labels) {
  std::error_code failure;
  if (!fs::is_directory(root, failure)) {
    throw Error(ErrorKind::kData, root.string() + ": no such folder",
                "data.path wants a folder with train/ and val/, each with one folder of images for each class");
  }
  std::vector<std::string> found = sorted_folders(root);
  if (found.empty() && needs_labels) {
    throw Error(ErrorKind::kData, root.string() + ": no folders in it, want one of images for each class",
                "as in train/ants/1.jpg and train/bees/2.jpg");
  }
  if (of_training.empty()) return found;
  std::vector<std::string> unknown;
  std::ranges::copy_if(found, std::back_inserter(unknown), [&](const std::string& name) {
    return std::ranges::find(of_training, name) == of_training.end();
  });
  if (!unknown.empty()) {
    throw Error(ErrorKind::kData,
                root.string() + ": has the " + (unknown.size() == 1 ? "class " : "classes ") + quoted_list(unknown) +
                    ", which training lacks; it has " + quoted_list(of_training),
                "rename the folder, or put images of that class into the training folder too");
  }
  return found;
}

void require_images(const fs::path& folder, std::size_t images, std::size_t others) {
  if (images > 0) return;
  const std::string beside = others > 0 ? " (" + files_text(others) + " none)" : "";
  throw Error(ErrorKind::kData, folder.string() + ": no JPEG or PNG image in it" + beside + ", want at least one",
              "put the class's images there, or remove the folder");
}

/// Returns a folder's plain files, sorted by name. Files of its sub-folders are not included.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    if (!is_hidden(entry->path()) && entry->is_regular_file()) files.push_back(entry->path());
  }
  if (failure) throw io_error("list", folder, failure.value());
  std::ranges::sort(files);
  return files;
}

void add_files(FolderIndex& index, const std::vector<fs::path>& files, std::int64_t label,
               const FolderOptions& options) {
  for (const fs::path& file : files) {
    const bool is_image = options.by_content ? is_image_by_content(file) : is_image_by_name(file);
    const std::string relative = file.lexically_relative(index.root).string();
    if (is_image) {
      index.images.push_back({.path = relative, .label = label});
    } else if (options.is_strict) {
      throw Error(ErrorKind::kData, file.string() + ": neither JPEG nor PNG, and data.strict asks for images alone",
                  "remove the file, or set data.strict = false");
    } else {
      index.left_out.push_back(relative);
    }
  }
}

class FolderImages : public EncodedImages {
 public:
  explicit FolderImages(FolderIndex index) : index_(std::move(index)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(index_.images.size()); }
  const std::vector<std::string>& classes() const override { return index_.classes; }
  std::int64_t label_of(std::int64_t id) const override { return image(id).label; }
  std::string name_of(std::int64_t id) const override { return (index_.root / image(id).path).string(); }

  FileBytes read(std::int64_t id) const override {
    const fs::path path = index_.root / image(id).path;
    const FileDescriptor file = opened(path);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw io_error("read", path, errno);
    FileBytes content;
    content.data = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(status.st_size));
    content.size = read_up_to(file, {content.data.get(), static_cast<std::size_t>(status.st_size)}, path);
    return content;
  }

 private:
  const FolderImage& image(std::int64_t id) const { return index_.images[static_cast<std::size_t>(id)]; }

  FolderIndex index_;
};

}  // namespace

FolderIndex folder_index(const std::filesystem::path& root, const std::vector<std::string>& classes,
                         const FolderOptions& options) {
  const std::vector<std::string> found = checked_classes(root, classes, options.needs_labels);
  FolderIndex index{.root = root, .classes = classes.empty() ? found : classes, .images = {}, .left_out = {}};
  if (!options.needs_labels) add_files(index, files_in(root), 0, options);
  for (const std::string& name : found) {
    const auto label = std::ranges::find(index.classes, name) - index.classes.begin();
    const std::size_t images_before = index.images.size();
    const std::size_t others_before = index.left_out.size();
    add_files(index, files_below(root / name), label, options);
    if (!options.needs_labels) continue;
    require_images(root / name, index.images.size() - images_before, index.left_out.size() - others_before);
  }
  require_images(root, index.images.size(), index.left_out.size());
  return index;
}

std::shared_ptr<const EncodedImages> folder_images(FolderIndex index) {
  return std::make_shared<FolderImages>(std::move(index));
}

std::filesystem::path split_folder(const std::filesystem::path& root, const std::string& split) {
  const std::vector<std::string> names = split == "train" ? std::vector<std::string>{"train", "training"}
                                         : split == "validation"
                                             ? std::vector<std::string>{"val", "valid", "validation"}
                                             : std::vector<std::string>{split};
  std::error_code ignored;
  for (const std::string& name : names) {
    if (fs::is_directory(root / name, ignored)) return root / name;
  }
  return {};
}

std::string left_out_note(const std::filesystem::path& root, const std::vector<std::string>& left_out) {
  return root.string() + ": " + files_text(left_out.size()) + " no image and left out: " + quoted_list(left_out);
}

}  // namespace lockstep
