// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/idx_source.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/idx.h"

namespace lockstep {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

void require(bool holds, const std::filesystem::path& file, const std::string& fact, const std::string& hint = {}) {
  if (!holds) throw Error(ErrorKind::kData, file.string() + ": " + fact, hint);
}

IdxArray no_labels(std::int64_t images) {
  return {.shape = {images}, .bytes = std::vector<std::byte>(static_cast<std::size_t>(images))};
}

class IdxSource : public SampleSource {
 public:
  IdxSource(const std::filesystem::path& images, const std::filesystem::path& labels, std::int64_t classes)
      : name_(images.filename().string()),
        images_(read_idx(images)),
        labels_(labels.empty() ? no_labels(images_.size()) : read_idx(labels)),
        item_bytes_(images_.shape.size() == 3 ? images_.item_bytes() : 0) {
    require(images_.shape.size() == 3, images,
            "the array is " + shape_text(images_.shape) + ", want [N, rows, columns]",
            "are images and labels swapped?");
    require(labels_.shape.size() == 1, labels, "the array is " + shape_text(labels_.shape) + ", want [N]",
            "are images and labels swapped?");
    require(images_.size() == labels_.size(), labels,
            std::to_string(labels_.size()) + " labels for the " + std::to_string(images_.size()) + " images of " +
                images.string() + ", want as many",
            "take both files from the same split of the same data set");
    require(images_.size() > 0, images, "no images, want at least one", "look at data.path");
    require(item_bytes_ > 0, images, "images of no pixels: " + shape_text(images_.shape));
    classes_ = classes > 0 ? classes : std::to_integer<std::int64_t>(std::ranges::max(labels_.bytes)) + 1;
    const auto wrong = std::ranges::find_if(
        labels_.bytes, [&](std::byte label) { return std::to_integer<std::int64_t>(label) >= classes_; });
    require(wrong == labels_.bytes.end(), labels,
            "label #" + std::to_string(wrong - labels_.bytes.begin()) + " is " +
                std::to_string(wrong == labels_.bytes.end() ? 0 : std::to_integer<int>(*wrong)) + ", want 0 to " +
                std::to_string(classes_ - 1),
            "the data set has " + std::to_string(classes_) + " classes; is this file of another one?");
    fields_ = {{.name = "input", .dtype = "U8", .shape = {1, images_.shape[1], images_.shape[2]}},
               {.name = "target", .dtype = "I64", .shape = {}}};
  }

  std::int64_t size() const override { return images_.size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return name_ + " #" + std::to_string(id); }
  std::int64_t classes() const override { return classes_; }
  bool is_in_memory() const override { return true; }
  std::optional<FixedSamples> fixed() const override { return itself(); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const auto item = static_cast<std::size_t>(key.id);
    std::memcpy(to[0], images_.bytes.data() + item * item_bytes_, item_bytes_);
    const auto label = std::to_integer<std::int64_t>(labels_.bytes[item]);
    std::memcpy(to[1], &label, sizeof label);
  }

 private:
  std::string name_;
  IdxArray images_;
  IdxArray labels_;
  std::size_t item_bytes_;
  std::int64_t classes_ = 0;
  std::vector<Field> fields_;
};

std::string prefix_of(const std::string& split) {
  if (split == "train") return "train";
  if (split == "validation") return "t10k";
  throw Error(ErrorKind::kUsage, "split is '" + split + "', want 'train' or 'validation'");
}

/// Returns the path of `name` or `name`.gz in `folder`.
std::optional<std::filesystem::path> found_file(const std::filesystem::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    const std::filesystem::path path = folder / (name + suffix);
    std::error_code failure;
    if (std::filesystem::exists(path, failure)) return path;
    if (failure) throw io_error("open", path, failure.value());
  }
  return {};
}

struct IdxNames {
  explicit IdxNames(const std::string& split)
      : images(prefix_of(split) + "-images-idx3-ubyte"), labels(prefix_of(split) + "-labels-idx1-ubyte") {}

  std::string images;
  std::string labels;
};

constexpr const char* kWhereToGetData =
    "data.path wants a folder of IDX files: datasets/digits comes with Lockstep; MNIST's four files are at "
    "https://ossci-datasets.s3.amazonaws.com/mnist/";

}  // namespace

std::unique_ptr<SampleSource> idx_source(const std::filesystem::path& images, const std::filesystem::path& labels,
                                         std::int64_t classes) {
  return std::make_unique<IdxSource>(images, labels, classes);
}

std::unique_ptr<SampleSource> idx_folder_source(const std::filesystem::path& folder, const std::string& split,
                                                std::int64_t classes, bool needs_labels) {
  const IdxNames names(split);
  const auto images = found_file(folder, names.images);
  const auto labels = found_file(folder, names.labels);
  if (images && !labels && !needs_labels) return idx_source(*images, {}, classes);
  if (images && labels) return idx_source(*images, *labels, classes);
  std::error_code failure;
  require(std::filesystem::is_directory(folder, failure), folder, "no such folder", kWhereToGetData);
  require(images || labels, folder,
          "neither " + names.images + " nor " + names.labels + " is there, with or without .gz", kWhereToGetData);
  throw Error(ErrorKind::kData,
              folder.string() + ": " + (images ? images : labels)->filename().string() + " is there, but no " +
                  (images ? names.labels : names.images) + ", with or without .gz",
              "put both files of the split into the folder");
}

bool has_idx_split(const std::filesystem::path& folder, const std::string& split) {
  const IdxNames names(split);
  return found_file(folder, names.images) || found_file(folder, names.labels);
}

}  // namespace lockstep
