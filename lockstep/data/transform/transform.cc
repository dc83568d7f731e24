// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/transform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/transform/colour.h"
#include "lockstep/data/transform/resample.h"
#include "lockstep/data/transform/sample_rng.h"

namespace lockstep {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string size_text(ImageSize size) { return std::to_string(size.width) + " x " + std::to_string(size.height); }

/// Rounds as Python's round() does: a half is rounded to the even number.
int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

ImageSize size_after(const step::Resize& resize, ImageSize in) {
  if (resize.width > 0) return {resize.width, resize.height};
  const int shorter = std::min(in.width, in.height);
  const int longer = std::max(in.width, in.height);
  // The longer side is rounded down, as in torchvision.
  const auto other = static_cast<int>(static_cast<std::int64_t>(resize.height) * longer / shorter);
  return in.width <= in.height ? ImageSize{resize.height, other} : ImageSize{other, resize.height};
}

ImageArea centred(ImageSize size, ImageSize in) {
  // If the image is smaller than the crop, black borders are added. An odd pixel goes to the right or lower border. If
  // the image is larger, the offset of the crop is rounded.
  const auto begin = [](int want, int have) {
    return want > have ? -((want - have) / 2) : rounded((have - want) / 2.0);
  };
  return {begin(size.width, in.width), begin(size.height, in.height), size.width, size.height};
}

ImageArea area_of(const step::RandomResizedCrop& crop, ImageSize in, SampleRng& draws) {
  const double area = static_cast<double>(in.width) * in.height;
  const double low = std::log(crop.ratio[0]);
  const double high = std::log(crop.ratio[1]);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part = area * draws.uniform(crop.scale[0], crop.scale[1]);
    const double ratio = std::exp(draws.uniform(low, high));
    const int width = rounded(std::sqrt(part * ratio));
    const int height = rounded(std::sqrt(part / ratio));
    if (width < 1 || height < 1 || width > in.width || height > in.height) continue;
    const auto top = static_cast<int>(draws.below(in.height - height + 1));
    const auto left = static_cast<int>(draws.below(in.width - width + 1));
    return {left, top, width, height};
  }
  ImageSize size = in;
  const double ratio = static_cast<double>(in.width) / in.height;
  if (ratio < crop.ratio[0]) size.height = std::clamp(rounded(in.width / crop.ratio[0]), 1, in.height);
  if (ratio > crop.ratio[1]) size.width = std::clamp(rounded(in.height * crop.ratio[1]), 1, in.width);
  return {(in.width - size.width) / 2, (in.height - size.height) / 2, size.width, size.height};
}

ImageArea area_of(const step::RandomCrop& crop, ImageSize in, SampleRng& draws) {
  const int padded_width = in.width + 2 * crop.padding;
  const int padded_height = in.height + 2 * crop.padding;
  if (padded_width < crop.size.width || padded_height < crop.size.height) {
    throw Error(ErrorKind::kData,
                "the image is " + size_text(in) + ", want at least " + size_text(crop.size) + " for random_crop with " +
                    std::to_string(crop.padding) + " pixels of padding",
                "put a resize before it, or give it more padding");
  }
  const auto top = static_cast<int>(draws.below(padded_height - crop.size.height + 1));
  const auto left = static_cast<int>(draws.below(padded_width - crop.size.width + 1));
  return {left - crop.padding, top - crop.padding, crop.size.width, crop.size.height};
}

/// Returns the part of the image that a step crops first. Nothing if the step takes the whole image.
std::optional<ImageArea> part_taken(const Step& step, ImageSize in, SampleRng& draws) {
  using Part = std::optional<ImageArea>;
  return std::visit(Overloaded{[&](const step::CenterCrop& crop) -> Part { return centred(crop.size, in); },
                               [&](const step::RandomResizedCrop& crop) -> Part { return area_of(crop, in, draws); },
                               [&](const step::RandomCrop& crop) -> Part { return area_of(crop, in, draws); },
                               [](const auto&) -> Part { return {}; }},
                    step);
}

bool is_within(const ImageArea& area, ImageSize size) {
  return area.left >= 0 && area.top >= 0 && area.left + area.width <= size.width &&
         area.top + area.height <= size.height;
}

/// The image between two steps. It is a view of pixels. It is copied only if a step must change bytes.
struct Working {
  PixelView view;
  Image own;

  void take(Image image) {
    own = std::move(image);
    view = view_of(own);
  }
  void crop(const ImageArea& area) {
    if (is_within(area, view.size)) {
      view = part_of_view(view, area);
    } else {
      take(copy_of(view, area));
    }
  }
  /// Returns the pixels as an owned image.
  Image& owned() {
    const bool is_all = view.first == own.row(0) && view.size == own.size() && view.pixel_step == own.channels();
    if (!is_all) take(copy_of(view));
    return own;
  }
  void resize(ImageSize size) {
    if (size != view.size) take(resized(std::move(owned()), size));
  }
};

double drawn_factor(double range, SampleRng& draws) { return draws.uniform(std::max(0.0, 1 - range), 1 + range); }

void jitter(const step::ColorJitter& jitter, Image& image, SampleRng& draws) {
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(i) + 1))]);
  }
  const double brightness = drawn_factor(jitter.brightness, draws);
  const double contrast = drawn_factor(jitter.contrast, draws);
  const double saturation = drawn_factor(jitter.saturation, draws);
  const double hue = draws.uniform(-jitter.hue, jitter.hue);
  for (const int which : order) {
    if (which == 0 && jitter.brightness > 0) adjust_brightness(image, brightness);
    if (which == 1 && jitter.contrast > 0) adjust_contrast(image, contrast);
    if (which == 2 && jitter.saturation > 0) adjust_saturation(image, saturation);
    if (which == 3 && jitter.hue > 0) adjust_hue(image, hue);
  }
}

/// Applies to the image what a step does after its crop.
void finish_step(const Step& step, Working& working, SampleRng& draws) {
  std::visit(Overloaded{[&](const step::Resize& resize) { working.resize(size_after(resize, working.view.size)); },
                        [&](const step::RandomResizedCrop& crop) { working.resize(crop.size); },
                        [&](const step::Flip& flip) {
                          if (draws.uniform() < flip.p) working.view = mirrored(working.view);
                        },
                        [&](const step::ColorJitter& settings) { jitter(settings, working.owned(), draws); },
                        [](const auto&) {}},
             step);
}

void run_steps(std::span<const Step> steps, std::size_t first, const SampleKey& key, Working& working) {
  for (std::size_t i = first; i < steps.size(); ++i) {
    SampleRng draws(key, i);
    if (const auto part = part_taken(steps[i], working.view.size, draws)) working.crop(*part);
    finish_step(steps[i], working, draws);
  }
}

}  // namespace

std::optional<ImageSize> ImageTransforms::output_size(std::optional<ImageSize> in) const {
  using Size = std::optional<ImageSize>;
  for (const Step& step : steps) {
    in = std::visit(Overloaded{[&](const step::Resize& resize) -> Size {
                                 if (resize.width > 0 || in) return size_after(resize, in.value_or(ImageSize{1, 1}));
                                 return {};
                               },
                               [](const step::CenterCrop& crop) -> Size { return crop.size; },
                               [](const step::RandomResizedCrop& crop) -> Size { return crop.size; },
                               [](const step::RandomCrop& crop) -> Size { return crop.size; },
                               [&](const auto&) -> Size { return in; }},
                    step);
  }
  return in;
}

bool ImageTransforms::is_light() const {
  return std::ranges::all_of(steps, [](const Step& step) {
    return std::holds_alternative<step::Flip>(step) || std::holds_alternative<step::RandomCrop>(step) ||
           std::holds_alternative<step::CenterCrop>(step);
  });
}

bool ImageTransforms::is_random() const {
  return std::ranges::any_of(steps, [](const Step& step) {
    return !std::holds_alternative<step::Resize>(step) && !std::holds_alternative<step::CenterCrop>(step);
  });
}

std::optional<int> ImageTransforms::margin(ImageSize in) const {
  std::optional<int> of_crop;
  for (const Step& step : steps) {
    if (std::holds_alternative<step::Flip>(step)) continue;
    // If there are two crops, the second one may reach beyond the first. Pixels there must be black, but the cached
    // image has other pixels there. So two crops are not one move.
    if (of_crop) return {};
    if (const auto* crop = std::get_if<step::RandomCrop>(&step)) {
      of_crop = crop->padding;
    } else if (const auto* centre = std::get_if<step::CenterCrop>(&step)) {
      of_crop = std::max({0, centre->size.width - in.width, centre->size.height - in.height});
    } else {
      return {};
    }
  }
  return of_crop.value_or(0);
}

PixelMove ImageTransforms::move_of(ImageSize in, const SampleKey& key) const {
  PixelMove move;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    SampleRng draws(key, i);
    if (const auto part = part_taken(steps[i], in, draws)) {
      // In a mirrored image the part's distance is counted from the other side.
      move.left += move.is_mirrored ? in.width - part->left - part->width : part->left;
      move.top += part->top;
      in = {part->width, part->height};
    }
    if (const auto* flip = std::get_if<step::Flip>(&steps[i]); flip != nullptr && draws.uniform() < flip->p)
      move.is_mirrored = !move.is_mirrored;
  }
  return move;
}

void ImageTransforms::apply(PixelView image, const SampleKey& key, std::uint8_t* to) const {
  Working working{.view = image, .own = {}};
  run_steps(steps, 0, key, working);
  write_planes(working.view, to);
}

void ImageTransforms::apply(ImageDecoder& image, const SampleKey& key, std::uint8_t* to) const {
  Working working;
  std::size_t done = 0;
  if (!steps.empty()) {
    SampleRng draws(key, 0);
    const auto part = part_taken(steps[0], image.size(), draws);
    if (part && is_within(*part, image.size())) {
      working.take(image.decoded(*part));
      finish_step(steps[0], working, draws);
      done = 1;
    }
  }
  if (done == 0) working.take(image.decoded());
  run_steps(steps, done, key, working);
  write_planes(working.view, to);
}

ImageTransforms without_chance(const ImageTransforms& transforms) {
  ImageTransforms plain{.steps = {}, .normalisation = transforms.normalisation, .mixing = {}};
  for (const Step& step : transforms.steps) {
    if (const auto* resized_crop = std::get_if<step::RandomResizedCrop>(&step)) {
      const ImageSize size = resized_crop->size;
      plain.steps.push_back(step::Resize{.height = rounded(std::max(size.width, size.height) * 8 / 7.0)});
      plain.steps.push_back(step::CenterCrop{size});
    } else if (const auto* crop = std::get_if<step::RandomCrop>(&step)) {
      if (crop->padding == 0) plain.steps.push_back(step::CenterCrop{crop->size});
    } else if (std::holds_alternative<step::Resize>(step) || std::holds_alternative<step::CenterCrop>(step)) {
      plain.steps.push_back(step);
    }
  }
  return plain;
}

ImageArea drawn_area(const step::RandomResizedCrop& crop, ImageSize image, const SampleKey& key, std::uint64_t stream) {
  SampleRng draws(key, stream);
  return area_of(crop, image, draws);
}

}  // namespace lockstep
