// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/hdf5_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/transform/pixels.h"
#include "lockstep/format/hdf5/hdf5.h"
#include "lockstep/format/image/image_index.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& fact, const std::string& hint = {}) {
  throw Error(ErrorKind::kData, name + ": " + fact, hint);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

/// A group in an HDF5 file, with one part of a data set.
struct Group {
  const Hdf5File& file;
  std::string path;

  std::string inside(const std::string& name) const { return (path == "/" ? "/" : path + "/") + name; }
  bool has(const std::string& name) const { return file.has_array(inside(name)); }
  Hdf5Array array(const std::string& name) const { return file.array(inside(name)); }
};

Hdf5Array found_array(const Group& group, const std::string& asked, std::vector<std::string> candidates,
                      const std::string& path) {
  if (!asked.empty()) candidates = {asked};
  for (const std::string& name : candidates) {
    if (group.has(name)) return group.array(name);
  }
  const std::vector<std::string> there = group.file.names_in(group.path);
  refuse(path,
         "no array " + joined(candidates, " or ") + " in '" + group.path + "', which holds " +
             (there.empty() ? "nothing" : joined(there, ", ")),
         "name it with data.input or data.target");
}

std::optional<Hdf5Array> found_target(const Group& group, const Hdf5Names& names, const std::string& path) {
  const std::vector<std::string> candidates{"y", "labels", "label", "targets"};
  const auto is_there = [&](const std::string& name) { return group.has(name); };
  const bool is_any_there = names.target.empty() ? std::ranges::any_of(candidates, is_there) : is_there(names.target);
  if (!names.needs_target && !is_any_there) return {};
  return found_array(group, names.target, candidates, path);
}

std::vector<std::int64_t> checked_labels(const std::optional<Hdf5Array>& target, std::int64_t samples,
                                         std::int64_t& classes) {
  if (!target) return std::vector<std::int64_t>(static_cast<std::size_t>(samples));
  const Hdf5Array& array = *target;
  const bool is_list = array.shape().size() == 1 || (array.shape().size() == 2 && array.shape()[1] == 1);
  if (!is_list) refuse(array.name(), "is " + shape_text(array.shape()) + ", want [" + std::to_string(samples) + "]");
  if (array.rows() != samples) {
    refuse(array.name(),
           std::to_string(array.rows()) + " labels for " + std::to_string(samples) + " samples, want as many");
  }
  std::vector<std::int64_t> labels = array.integers();
  if (classes == 0) classes = labels.empty() ? 0 : std::max<std::int64_t>(std::ranges::max(labels), 0) + 1;
  const auto wrong = std::ranges::find_if(labels, [&](std::int64_t label) { return label < 0 || label >= classes; });
  if (wrong != labels.end()) {
    refuse(array.name(),
           "label #" + std::to_string(wrong - labels.begin()) + " is " + std::to_string(*wrong) + ", want 0 to " +
               std::to_string(classes - 1),
           "the training part has " + std::to_string(classes) + " classes");
  }
  return labels;
}

/// Encoded images in an HDF5 file. Each has the same bytes as the image file from which it came.
class Hdf5Images : public EncodedImages {
 public:
  Hdf5Images(Hdf5Array bytes, std::vector<std::int64_t> labels, std::vector<std::string> classes)
      : bytes_(std::move(bytes)), labels_(std::move(labels)), classes_(std::move(classes)) {}

  void set_index(std::vector<std::uint64_t> index) { index_ = std::move(index); }
  void set_names(Hdf5Array names) { names_ = std::move(names); }
  void set_sums(std::vector<std::uint64_t> sums) { sums_ = std::move(sums); }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label_of(std::int64_t id) const override { return labels_[static_cast<std::size_t>(id)]; }

  std::string name_of(std::int64_t id) const override {
    const std::string number = bytes_.name() + " #" + std::to_string(id);
    if (!names_) return number;
    std::vector<std::byte> text(names_->row_bytes());
    names_->read_rows(id, 1, text);
    const auto* first = reinterpret_cast<const char*>(text.data());
    return number + " (" + std::string(first, ::strnlen(first, text.size())) + ")";
  }

  FileBytes read(std::int64_t id) const override {
    FileBytes content;
    if (index_.empty()) {
      const std::vector<std::byte> row = bytes_.bytes_row(id);
      content.data = std::make_unique_for_overwrite<std::byte[]>(row.size());
      content.size = row.size();
      std::ranges::copy(row, content.data.get());
      return content;
    }
    const std::uint64_t first = index_[2 * static_cast<std::size_t>(id)];
    content.size = index_[2 * static_cast<std::size_t>(id) + 1];
    content.data = std::make_unique_for_overwrite<std::byte[]>(content.size);
    bytes_.read_rows(static_cast<std::int64_t>(first), static_cast<std::int64_t>(content.size),
                     {content.data.get(), content.size});
    check_sum(content, id);
    return content;
  }

 private:
  /// A damaged JPEG may still decode, to other pixels. So each image's checksum is compared, which costs little beside
  /// decoding.
  void check_sum(const FileBytes& content, std::int64_t id) const {
    if (sums_.empty()) return;
    const std::uint64_t wanted = sums_[static_cast<std::size_t>(id)];
    const std::uint64_t sum = xxh3_64(content.bytes());
    if (sum == wanted) return;
    throw Error(ErrorKind::kData, "its bytes have the XXH3-64 sum " + hex64(sum) + ", want " + hex64(wanted),
                "the file was damaged or not converted to its end; convert or copy it again");
  }

  Hdf5Array bytes_;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> classes_;
  std::vector<std::uint64_t> index_;  ///< [N, 2]. Empty for rows of varied length.
  std::vector<std::uint64_t> sums_;   ///< Empty if the file has none.
  std::optional<Hdf5Array> names_;
};

/// A source whose samples are rows of HDF5 arrays.
class Hdf5Arrays : public SampleSource {
 public:
  Hdf5Arrays(Hdf5Array input, std::vector<std::int64_t> labels, std::int64_t classes)
      : input_(std::move(input)), labels_(std::move(labels)), classes_(classes) {
    std::vector<std::int64_t> shape(input_.shape().begin() + 1, input_.shape().end());
    if (input_.dtype() == "U8" && shape.size() == 2) shape.insert(shape.begin(), 1);
    const auto is_colour = [](std::int64_t size) { return size == 1 || size == 3; };
    is_interleaved_ = input_.dtype() == "U8" && shape.size() == 3 && is_colour(shape[2]) && !is_colour(shape[0]);
    if (is_interleaved_) shape = {shape[2], shape[0], shape[1]};
    fields_ = {{.name = "input", .dtype = input_.dtype(), .shape = shape},
               {.name = "target", .dtype = "I64", .shape = {}}};
    LOCKSTEP_ASSERT(fields_[0].bytes() == input_.row_bytes());
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return classes_; }
  std::string name_of(std::int64_t id) const override { return input_.name() + " #" + std::to_string(id); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const std::size_t bytes = input_.row_bytes();
    std::memcpy(to[1], &labels_[static_cast<std::size_t>(key.id)], sizeof(std::int64_t));
    if (!is_interleaved_) return input_.read_rows(key.id, 1, {to[0], bytes});
    const auto& shape = fields_[0].shape;
    Image image({static_cast<int>(shape[2]), static_cast<int>(shape[1])}, static_cast<int>(shape[0]));
    input_.read_rows(key.id, 1, {reinterpret_cast<std::byte*>(image.row(0)), bytes});
    write_planes(view_of(image), reinterpret_cast<std::uint8_t*>(to[0]));
  }

 private:
  Hdf5Array input_;
  std::vector<std::int64_t> labels_;
  std::int64_t classes_;
  std::vector<Field> fields_;
  bool is_interleaved_ = false;
};

std::vector<std::uint64_t> image_index(const Hdf5Array& array, const Hdf5Array& bytes) {
  if (array.shape().size() != 2 || array.shape()[1] != 2) {
    refuse(array.name(), "is " + shape_text(array.shape()) + ", want [N, 2]: offset and length of each image");
  }
  const std::vector<std::int64_t> numbers = array.integers();
  std::vector<std::uint64_t> index(numbers.begin(), numbers.end());
  check_image_index(index, static_cast<std::uint64_t>(bytes.rows()), array.name());
  return index;
}

/// Returns the checksums of images. They use all 64 bits, and integers() would refuse numbers of 2^63 and more. So this
/// reads the array's bytes.
std::vector<std::uint64_t> sum_bits(const Hdf5Array& array) {
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(array.rows()));
  array.read_rows(0, array.rows(), std::as_writable_bytes(std::span(bits)));
  return bits;
}

std::shared_ptr<const EncodedImages> encoded_images(const Group& group, Hdf5Array bytes,
                                                    const std::optional<Hdf5Array>& target, std::int64_t& classes,
                                                    std::vector<std::string> names) {
  std::vector<std::uint64_t> index;
  if (bytes.dtype() != "bytes") index = image_index(group.array("index"), bytes);
  const std::int64_t samples = bytes.dtype() == "bytes" ? bytes.rows() : static_cast<std::int64_t>(index.size() / 2);
  std::vector<std::int64_t> labels = checked_labels(target, samples, classes);
  for (auto i = static_cast<std::int64_t>(names.size()); i < classes; ++i) names.push_back(std::to_string(i));
  auto images = std::make_shared<Hdf5Images>(std::move(bytes), std::move(labels), std::move(names));
  const bool has_sums = !index.empty() && group.has("xxh3");
  images->set_index(std::move(index));
  if (has_sums) {
    const Hdf5Array sums = group.array("xxh3");
    if (sums.dtype() == "U64" && sums.shape() == std::vector<std::int64_t>{samples}) images->set_sums(sum_bits(sums));
  }
  if (group.has("names")) {
    Hdf5Array texts = group.array("names");
    if (texts.dtype() == "text" && texts.row_bytes() > 0 && texts.rows() == samples)
      images->set_names(std::move(texts));
  }
  return images;
}

}  // namespace

std::optional<std::string> hdf5_group(const std::filesystem::path& file, const std::string& split) {
  const Hdf5File opened(file);
  constexpr auto kTrain = std::to_array<const char*>({"/train", "/training"});
  constexpr auto kValidation = std::to_array<const char*>({"/val", "/valid", "/validation"});
  const std::string own = "/" + split;
  const std::span<const char* const> names = split == "train"        ? std::span<const char* const>(kTrain)
                                             : split == "validation" ? std::span<const char* const>(kValidation)
                                                                     : std::span<const char* const>();
  for (const char* name : names) {
    if (opened.has_group(name)) return name;
  }
  if (names.empty() && opened.has_group(own)) return own;
  if (split != "train") return {};
  const std::vector<std::string> there = opened.names_in("/");
  const bool has_arrays =
      std::ranges::any_of(there, [&](const std::string& name) { return opened.has_array("/" + name); });
  if (has_arrays) return "/";
  refuse(file.string(),
         "no group '/train' and no arrays; it holds " + (there.empty() ? "nothing" : joined(there, ", ")));
}

Hdf5Part hdf5_part(const std::filesystem::path& file, const std::string& path_in_file, const Hdf5Names& names,
                   std::int64_t classes) {
  const Hdf5File opened(file);
  Hdf5Part part;
  if (opened.has_array("/classes")) part.classes = opened.array("/classes").texts();
  if (!part.classes.empty()) classes = static_cast<std::int64_t>(part.classes.size());
  const Group group{opened, path_in_file};
  Hdf5Array input = found_array(group, names.input, {"x", "images", "image", "data", "inputs"}, file.string());
  const auto target = found_target(group, names, file.string());
  const bool is_concatenated = input.dtype() == "U8" && input.shape().size() == 1 && group.has("index");
  if (input.dtype() == "bytes" || is_concatenated) {
    part.images = encoded_images(group, std::move(input), target, classes, part.classes);
    return part;
  }
  if (input.dtype() == "text") refuse(input.name(), "holds text, want numbers or encoded images");
  if (input.rows() < 1) refuse(input.name(), "is " + shape_text(input.shape()) + ", want at least one sample");
  std::vector<std::int64_t> labels = checked_labels(target, input.rows(), classes);
  part.arrays = std::make_shared<Hdf5Arrays>(std::move(input), std::move(labels), classes);
  return part;
}

}  // namespace lockstep
