// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/synthetic_source.h"

#include <cstring>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// For samples with more numbers than this, generating one takes longer than passing it to another thread.
constexpr std::size_t kQuickNumbers = 4096;
constexpr std::int64_t kMostNumbers = 1 << 28;
constexpr std::int64_t kMostClasses = 1'000'000;

void require(bool holds, const std::string& fact) {
  if (!holds) throw Error(ErrorKind::kRecipe, fact);
}

std::int64_t checked_numbers(const SyntheticOptions& options) {
  require(options.samples >= 1, "data.samples is " + std::to_string(options.samples) + ", want 1 or more");
  require(options.classes >= 1 && options.classes <= kMostClasses,
          "data.classes is " + std::to_string(options.classes) + ", want 1 to " + std::to_string(kMostClasses));
  std::int64_t numbers = 1;
  for (const std::int64_t size : options.shape) {
    require(size >= 1 && size <= kMostNumbers / numbers, "data.shape has the size " + std::to_string(size) +
                                                             ", want 1 or more, and at most " +
                                                             std::to_string(kMostNumbers) + " numbers a sample");
    numbers *= size;
  }
  return numbers;
}

/// Returns the number of classes that `digits` digits of `base` can represent. If there are more than `enough`, it
/// stops counting.
std::int64_t reach(std::int64_t base, std::int64_t digits, std::int64_t enough) {
  std::int64_t numbers = 1;
  for (std::int64_t i = 0; i < digits && numbers < enough; ++i) numbers *= base;
  return numbers;
}

/// Returns the sum of four uniform numbers of 16 bits, scaled to [-1, 1]. Its distribution is bell-shaped, with
/// standard deviation 0.29. The result is a whole number times a power of two, so it has no rounding error. Adding a
/// centre to it gives the same bits on every machine, with fused multiply-add or without.
float bell(std::uint64_t bits) {
  const std::uint64_t sum = (bits & 0xffffU) + (bits >> 16U & 0xffffU) + (bits >> 32U & 0xffffU) + (bits >> 48U);
  return static_cast<float>(static_cast<std::int32_t>(sum) - 2 * 0xffff) * 0x1p-17F;
}

/// A class's number is written in the smallest base whose digits fit into a sample. The digits, spread 2 apart, are the
/// class's centre. They repeat over all numbers of the sample, each with its own sign.
class SyntheticSource : public SampleSource {
 public:
  explicit SyntheticSource(const SyntheticOptions& options) : options_(options) {
    const std::int64_t numbers = checked_numbers(options);
    std::int64_t base = 2;
    while (reach(base, numbers, options.classes) < options.classes) ++base;
    while (reach(base, digits_, options.classes) < options.classes) ++digits_;
    for (std::int64_t label = 0; label < options.classes; ++label) {
      for (std::int64_t i = 0, rest = label; i < digits_; ++i, rest /= base) {
        centres_.push_back(static_cast<float>(2 * (rest % base) - (base - 1)));
      }
    }
    signs_.reserve(static_cast<std::size_t>(numbers));
    for (std::int64_t i = 0; i < numbers; ++i) {
      signs_.push_back((mixed(~options.seed, static_cast<std::uint64_t>(i)) & 1U) != 0 ? 1.0F : -1.0F);
    }
    fields_ = {{.name = "input", .dtype = "F32", .shape = options.shape},
               {.name = "target", .dtype = "I64", .shape = {}}};
  }

  std::int64_t size() const override { return options_.samples; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return "synthetic sample #" + std::to_string(id); }
  std::int64_t classes() const override { return options_.classes; }
  bool is_in_memory() const override { return signs_.size() <= kQuickNumbers; }
  std::optional<FixedSamples> fixed() const override { return itself(); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const std::int64_t label = key.id % options_.classes;
    const std::uint64_t noise = mixed(options_.seed, static_cast<std::uint64_t>(key.id));
    const float* centre = centres_.data() + label * digits_;
    auto* input = reinterpret_cast<float*>(to[0]);
    std::int64_t digit = 0;
    for (std::size_t i = 0; i < signs_.size(); ++i) {
      input[i] = signs_[i] * centre[digit] + bell(mixed(noise, i));
      if (++digit == digits_) digit = 0;
    }
    std::memcpy(to[1], &label, sizeof label);
  }

 private:
  SyntheticOptions options_;
  std::int64_t digits_ = 1;
  std::vector<float> centres_;  ///< [classes, digits]
  std::vector<float> signs_;
  std::vector<Field> fields_;
};

}  // namespace

std::unique_ptr<SampleSource> synthetic_source(const SyntheticOptions& options) {
  return std::make_unique<SyntheticSource>(options);
}

}  // namespace lockstep
