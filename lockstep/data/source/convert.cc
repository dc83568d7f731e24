// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/convert.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/hdf5/hdf5.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "lockstep encoded images 1";
// The bytes between two progress reports. They come often enough for a person, and rarely enough to cost nothing.
constexpr std::uint64_t kBytesBetweenTellings = 8U << 20U;

/// A part of the data set: its images and the layout of its arrays, which are known before an image is read.
struct Outline {
  std::shared_ptr<const EncodedImages> images;
  const ConvertPart* part = nullptr;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> offsets;  ///< Within "images". The last is its size.
  std::size_t longest_name = 1;
  /// Offsets of the arrays in the file.
  std::uint64_t images_at = 0;
  std::uint64_t index_at = 0;
  std::uint64_t labels_at = 0;
  std::uint64_t names_at = 0;
  std::uint64_t sums_at = 0;

  std::uint64_t bytes() const { return offsets.back(); }
};

Outline outline_of(const ConvertPart& part) {
  Outline outline;
  outline.images = folder_images(part.index);
  outline.part = &part;
  outline.offsets.push_back(0);
  for (const FolderImage& image : part.index.images) {
    const fs::path path = part.index.root / image.path;
    std::error_code failure;
    const auto size = fs::file_size(path, failure);
    if (failure) throw io_error("read", path, failure.value());
    outline.sizes.push_back(size);
    outline.offsets.push_back(outline.offsets.back() + size);
    outline.longest_name = std::max(outline.longest_name, image.path.size());
  }
  return outline;
}

/// Takes the arrays' offsets in the file from the plans, in the order of plans_for().
void take_offsets(Outline& outline, const std::vector<Hdf5Plan>& plans, std::size_t first) {
  outline.images_at = plans[first].offset;
  outline.index_at = plans[first + 1].offset;
  outline.labels_at = plans[first + 2].offset;
  outline.names_at = plans[first + 3].offset;
  outline.sums_at = plans[first + 4].offset;
}

std::vector<Hdf5Plan> plans_for(const std::vector<Outline>& outlines, const std::vector<std::string>& classes) {
  std::vector<Hdf5Plan> plans;
  for (const Outline& outline : outlines) {
    const std::string group = "/" + outline.part->group + "/";
    const auto count = static_cast<std::int64_t>(outline.sizes.size());
    plans.push_back({group + "images", "U8", {static_cast<std::int64_t>(outline.bytes())}, 0, 0});
    plans.push_back({group + "index", "U64", {count, 2}, 0, 0});
    plans.push_back({group + "labels", "I64", {count}, 0, 0});
    plans.push_back({group + "names", "text", {count}, outline.longest_name, 0});
    plans.push_back({group + "xxh3", "U64", {count}, 0, 0});
  }
  std::size_t longest = 1;
  for (const std::string& name : classes) longest = std::max(longest, name.size());
  plans.push_back({"/classes", "text", {static_cast<std::int64_t>(classes.size())}, longest, 0});
  return plans;
}

/// A file written and read in place.
class PlacedFile {
 public:
  PlacedFile(const fs::path& path, bool is_new) : path_(path) {
    file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | (is_new ? O_CREAT : 0), 0666));
    if (!file_) throw io_error("open", path, errno);
  }

  void lock() const {
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK) return;  // A file system without locks.
    throw Error(ErrorKind::kEnvironment, path_.string() + ": another process is writing it", "wait for its end");
  }

  void write(std::uint64_t at, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t put = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw io_error("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
      at += static_cast<std::uint64_t>(put);
    }
  }

  /// False if the file ends before.
  bool read(std::uint64_t at, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t got = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw io_error("read", path_, errno);
      if (got == 0) return false;
      to = to.subspan(static_cast<std::size_t>(got));
      at += static_cast<std::uint64_t>(got);
    }
    return true;
  }

  void sync() const {
    if (::fsync(file_.get()) != 0) throw io_error("sync", path_, errno);
  }

 private:
  fs::path path_;
  FileDescriptor file_;
};

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<char> padded_texts(const std::vector<std::string>& texts, std::size_t width) {
  std::vector<char> padded(texts.size() * width, '\0');
  for (std::size_t i = 0; i < texts.size(); ++i)
    std::ranges::copy(texts[i], padded.begin() + static_cast<std::ptrdiff_t>(i * width));
  return padded;
}

void write_labels_and_names(const PlacedFile& file, const Outline& outline) {
  std::vector<std::int64_t> labels;
  std::vector<std::string> names;
  for (const FolderImage& image : outline.part->index.images) {
    labels.push_back(image.label);
    names.push_back(image.path);
  }
  file.write(outline.labels_at, bytes_of(labels));
  file.write(outline.names_at, bytes_of(padded_texts(names, outline.longest_name)));
}

/// True if `part` is the beginning of this very conversion, with the same images, names, sizes and classes.
bool is_beginning(const fs::path& part, const std::vector<Outline>& outlines, const std::vector<std::string>& classes) {
  try {
    const Hdf5File file(part);
    if (file.array("/classes").texts() != classes) return false;
    for (const Outline& outline : outlines) {
      const std::string group = "/" + outline.part->group + "/";
      if (file.array(group + "images").rows() != static_cast<std::int64_t>(outline.bytes())) return false;
      const std::vector<std::string> names = file.array(group + "names").texts();
      const std::vector<std::int64_t> labels = file.array(group + "labels").integers();
      const std::vector<std::int64_t> index = file.array(group + "index").integers();
      const auto& images = outline.part->index.images;
      if (names.size() != images.size() || labels.size() != images.size()) return false;
      for (std::size_t i = 0; i < images.size(); ++i) {
        if (names[i] != images[i].path || labels[i] != images[i].label) return false;
        const auto length = static_cast<std::uint64_t>(index[2 * i + 1]);
        if (length != 0 && length != outline.sizes[i]) return false;
      }
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

class Conversion {
 public:
  Conversion(const std::vector<ConvertPart>& parts, fs::path to,
             const std::function<bool(const ConvertProgress&)>& tell)
      : to_(std::move(to)), part_path_(to_.string() + ".part"), tell_(tell) {
    for (const ConvertPart& part : parts) outlines_.push_back(outline_of(part));
    for (const Outline& outline : outlines_) {
      result_.done.all_images += static_cast<std::int64_t>(outline.sizes.size());
      result_.done.all_bytes += outline.bytes();
    }
  }

  Converted run(const std::vector<std::string>& classes) {
    const PlacedFile file(part_path_, true);
    file.lock();
    const bool is_continued = is_beginning(part_path_, outlines_, classes);
    // An unfinished file of another conversion is of no use, so it is replaced. The plan of a file that is continued is
    // the same, so creating it in a copy gives the offsets of its arrays.
    std::vector<Hdf5Plan> plans = plans_for(outlines_, classes);
    const fs::path made = is_continued ? fs::path(part_path_.string() + ".plan") : part_path_;
    make_hdf5(made, kFormat, plans);
    if (is_continued) fs::remove(made);
    for (std::size_t i = 0; i < outlines_.size(); ++i) take_offsets(outlines_[i], plans, 5 * i);
    if (!is_continued) {
      file.write(plans.back().offset, bytes_of(padded_texts(classes, plans.back().text_bytes)));
      for (const Outline& outline : outlines_) write_labels_and_names(file, outline);
    }
    for (const Outline& outline : outlines_) {
      if (!write_part(file, outline, is_continued)) return result_;
    }
    file.sync();
    if (::rename(part_path_.c_str(), to_.c_str()) != 0) throw io_error("rename", part_path_, errno);
    sync_folder(to_.has_parent_path() ? to_.parent_path() : fs::path("."));
    tell_(result_.done);
    return result_;
  }

 private:
  bool write_part(const PlacedFile& file, const Outline& outline, bool is_continued) {
    for (std::size_t i = 0; i < outline.sizes.size(); ++i) {
      if (is_continued && is_kept(file, outline, i)) {
        ++result_.images_kept;
      } else {
        write_image(file, outline, i);
      }
      ++result_.done.images;
      result_.done.bytes += outline.sizes[i];
      if (result_.done.bytes < next_telling_) continue;
      next_telling_ = result_.done.bytes + kBytesBetweenTellings;
      if (!tell_(result_.done)) return false;
    }
    return true;
  }

  static bool is_kept(const PlacedFile& file, const Outline& outline, std::size_t i) {
    std::array<std::uint64_t, 2> place{};
    std::uint64_t sum = 0;
    if (!file.read(outline.index_at + 16 * i, std::as_writable_bytes(std::span(place)))) return false;
    if (place[0] != outline.offsets[i] || place[1] != outline.sizes[i]) return false;
    if (!file.read(outline.sums_at + 8 * i, std::as_writable_bytes(std::span(&sum, 1)))) return false;
    std::vector<std::byte> bytes(outline.sizes[i]);
    return file.read(outline.images_at + outline.offsets[i], bytes) && xxh3_64(bytes) == sum;
  }

  static void write_image(const PlacedFile& file, const Outline& outline, std::size_t i) {
    const auto id = static_cast<std::int64_t>(i);
    const FileBytes content = outline.images->read(id);
    if (content.size != outline.sizes[i]) {
      throw Error(ErrorKind::kData, outline.images->name_of(id) + ": changed while it was converted",
                  "convert again once nobody writes there");
    }
    // The index is written last. An entry in it means that all before it is there.
    const std::uint64_t sum = xxh3_64(content.bytes());
    file.write(outline.images_at + outline.offsets[i], content.bytes());
    file.write(outline.sums_at + 8 * i, std::as_bytes(std::span(&sum, 1)));
    const std::array<std::uint64_t, 2> place{outline.offsets[i], outline.sizes[i]};
    file.write(outline.index_at + 16 * i, std::as_bytes(std::span(place)));
  }

  fs::path to_;
  fs::path part_path_;
  const std::function<bool(const ConvertProgress&)>& tell_;
  std::vector<Outline> outlines_;
  Converted result_;
  std::uint64_t next_telling_ = 0;
};

}  // namespace

Converted convert_folders(const std::vector<ConvertPart>& parts, const std::filesystem::path& to,
                          const std::function<bool(const ConvertProgress&)>& tell) {
  LOCKSTEP_ASSERT(!parts.empty());
  std::error_code ignored;
  if (fs::exists(to, ignored)) {
    throw Error(ErrorKind::kUsage, to.string() + ": exists already, want the name of a new file", "remove it first");
  }
  return Conversion(parts, to, tell).run(parts[0].index.classes);
}

}  // namespace lockstep
