// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/image_source.h"

#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::vector<Field> image_fields(std::int64_t channels, ImageSize size) {
  return {{.name = "input", .dtype = "U8", .shape = {channels, size.height, size.width}},
          {.name = "target", .dtype = "I64", .shape = {}}};
}

class ImageSource : public SampleSource {
 public:
  ImageSource(std::shared_ptr<const EncodedImages> images, ImageTransforms transforms)
      : images_(std::move(images)), transforms_(std::move(transforms)) {
    const auto size = transforms_.output_size({});
    if (!size) {
      throw Error(ErrorKind::kRecipe, "the transforms leave images at different sizes, want one size for a batch",
                  "data.transforms = [\"random_resized_crop(64)\", \"flip\"] or [\"resize(72)\", \"center_crop(64)\"]");
    }
    fields_ = image_fields(3, *size);
  }

  std::int64_t size() const override { return images_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return images_->name_of(id); }
  std::int64_t classes() const override { return static_cast<std::int64_t>(images_->classes().size()); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const FileBytes file = images_->read(key.id);
    ImageDecoder decoder(file.bytes(), "");
    transforms_.apply(decoder, key, reinterpret_cast<std::uint8_t*>(to[0]));
    const std::int64_t label = images_->label_of(key.id);
    std::memcpy(to[1], &label, sizeof label);
  }

  std::optional<FixedSamples> fixed() const override {
    return transforms_.is_random() ? std::nullopt : std::optional(itself());
  }

 private:
  std::shared_ptr<const EncodedImages> images_;
  ImageTransforms transforms_;
  std::vector<Field> fields_;
};

class TransformedSource : public SampleSource {
 public:
  TransformedSource(std::shared_ptr<const SampleSource> source, ImageTransforms transforms)
      : source_(std::move(source)), transforms_(std::move(transforms)), fields_(source_->fields()) {
    const Field& input = fields_.at(0);
    const bool is_image =
        input.dtype == "U8" && input.shape.size() == 3 && (input.shape[0] == 1 || input.shape[0] == 3);
    if (!is_image) {
      std::string shape;
      for (const std::int64_t size : input.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
      throw Error(ErrorKind::kRecipe,
                  "the samples are " + input.dtype + " [" + shape +
                      "], want bytes of images, U8 [1 or 3, height, width], for data.transforms",
                  "leave data.transforms out");
    }
    channels_ = static_cast<int>(input.shape[0]);
    in_ = {static_cast<int>(input.shape[2]), static_cast<int>(input.shape[1])};
    in_bytes_ = input.bytes();
    const ImageSize out = transforms_.output_size(in_).value();
    fields_[0].shape = {channels_, out.height, out.width};
  }

  std::int64_t size() const override { return source_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return source_->name_of(id); }
  std::int64_t classes() const override { return source_->classes(); }
  bool is_in_memory() const override { return source_->is_in_memory() && transforms_.is_light(); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const auto pixels = std::make_unique_for_overwrite<std::byte[]>(in_bytes_);
    std::vector<std::byte*> raw(to.begin(), to.end());
    raw[0] = pixels.get();
    source_->read(key, raw);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(pixels.get());
    transforms_.apply(view_of_planes(bytes, in_, channels_), key, reinterpret_cast<std::uint8_t*>(to[0]));
  }

  std::optional<FixedSamples> fixed() const override {
    const auto raw = source_->fixed();
    if (!raw || raw->move) return {};
    if (!transforms_.is_random()) return itself();
    const auto margin = transforms_.margin(in_);
    if (!margin) return {};
    return FixedSamples{.samples = raw->samples,
                        .move = [this](const SampleKey& key) { return transforms_.move_of(in_, key); },
                        .margin = *margin};
  }

 private:
  std::shared_ptr<const SampleSource> source_;
  ImageTransforms transforms_;
  std::vector<Field> fields_;
  ImageSize in_;
  int channels_ = 0;
  std::size_t in_bytes_ = 0;
};

}  // namespace

std::unique_ptr<SampleSource> image_source(std::shared_ptr<const EncodedImages> images, ImageTransforms transforms) {
  return std::make_unique<ImageSource>(std::move(images), std::move(transforms));
}

std::unique_ptr<SampleSource> transformed(std::shared_ptr<const SampleSource> source, ImageTransforms transforms) {
  return std::make_unique<TransformedSource>(std::move(source), std::move(transforms));
}

}  // namespace lockstep
