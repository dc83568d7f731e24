// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/index_source.h"

#include <array>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

class PlacesSource : public SampleSource {
 public:
  PlacesSource(const SampleSource& source, FixedSamples fixed)
      : source_(source),
        fixed_(std::move(fixed)),
        fields_{{.name = "place", .dtype = "I64", .shape = {fixed_.move ? kMovedPlaceNumbers : kPlaceNumbers}}},
        bytes_(fields_[0].bytes()) {}

  std::int64_t size() const override { return source_.size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return source_.name_of(id); }
  std::int64_t classes() const override { return source_.classes(); }
  bool is_in_memory() const override { return true; }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    std::array<std::int64_t, kMovedPlaceNumbers> numbers{key.id, 0, 0, 0};
    if (fixed_.move) {
      const PixelMove move = fixed_.move(key);
      numbers = {key.id, move.left + fixed_.margin, move.top + fixed_.margin, move.is_mirrored ? 1 : 0};
    }
    std::memcpy(to[0], numbers.data(), bytes_);
  }

 private:
  const SampleSource& source_;
  FixedSamples fixed_;
  std::vector<Field> fields_;
  std::size_t bytes_;
};

}  // namespace

std::unique_ptr<SampleSource> index_source(const SampleSource& source, FixedSamples fixed) {
  return std::make_unique<PlacesSource>(source, std::move(fixed));
}

}  // namespace lockstep
