// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/mixing.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/base/error.h"
#include "lockstep/data/transform/sample_rng.h"

namespace lockstep {
namespace {

// The stream of random numbers for mixing. Transforms use their index in the list as stream, from 0 on, so none has
// this one.
constexpr std::uint64_t kStream = ~std::uint64_t{0};

double normal(SampleRng& draws) {
  const double radius = std::sqrt(-2 * std::log(1 - draws.uniform()));
  return radius * std::cos(2 * std::numbers::pi * draws.uniform());
}

/// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double gamma(double shape, SampleRng& draws) {
  if (shape < 1) {
    const double power = std::pow(1 - draws.uniform(), 1 / shape);
    return gamma(shape + 1, draws) * power;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(draws);
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - draws.uniform()) < x * x / 2 + d * (1 - v + std::log(v))) return d * v;
  }
}

double symmetric_beta(double alpha, SampleRng& draws) {
  const double a = gamma(alpha, draws);
  const double b = gamma(alpha, draws);
  // If alpha is small, `a` and `b` may both underflow to 0. Then the share is 0 or 1 by chance.
  if (!(a + b > 0)) return draws.uniform() < 0.5 ? 0 : 1;
  return a / (a + b);
}

ImageArea drawn_box(double own, ImageSize size, SampleRng& draws) {
  const auto x = static_cast<int>(draws.below(size.width));
  const auto y = static_cast<int>(draws.below(size.height));
  const double half = 0.5 * std::sqrt(1 - own);
  const int half_width = static_cast<int>(half * size.width);
  const int half_height = static_cast<int>(half * size.height);
  const int left = std::max(x - half_width, 0);
  const int top = std::max(y - half_height, 0);
  return {left, top, std::min(x + half_width, size.width) - left, std::min(y + half_height, size.height) - top};
}

}  // namespace

Mix drawn_mix(const Mixing& mixing, std::uint64_t seed, std::int64_t epoch, std::int64_t place, ImageSize size) {
  LOCKSTEP_ASSERT((mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0) && size.width >= 1 && size.height >= 1);
  SampleRng draws({.seed = seed, .epoch = epoch, .id = place / 2}, kStream);
  const bool is_either = mixing.mixup_alpha > 0 && mixing.cutmix_alpha > 0;
  Mix mix{
      .own = 1, .partner = place ^ 1, .is_cut = is_either ? draws.uniform() < 0.5 : mixing.cutmix_alpha > 0, .box = {}};
  mix.own = symmetric_beta(mix.is_cut ? mixing.cutmix_alpha : mixing.mixup_alpha, draws);
  if (mix.is_cut) {
    mix.box = drawn_box(mix.own, size, draws);
    mix.own = 1 - static_cast<double>(mix.box.width) * mix.box.height / (static_cast<double>(size.width) * size.height);
  }
  return mix;
}

}  // namespace lockstep
