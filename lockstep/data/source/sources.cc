// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/sources.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/epoch_order.h"

namespace lockstep {
namespace {

// The split is drawn from the order of an epoch that is never trained. So the held-out samples do not depend on the
// order of any real epoch.
constexpr std::int64_t kSplitEpoch = -1;

class SubsetSource : public SampleSource {
 public:
  SubsetSource(std::shared_ptr<const SampleSource> source, std::vector<std::int64_t> ids)
      : source_(std::move(source)), ids_(std::move(ids)) {
    if (source_->is_stream() && !is_beginning()) {
      throw Error(ErrorKind::kRecipe, "a part is to be drawn of an iterable data set, which has no samples by number",
                  "leave out data.split: the data set's function may return each part");
    }
    const auto wrong = std::ranges::find_if(ids_, [&](std::int64_t id) { return id < 0 || id >= source_->size(); });
    if (wrong == ids_.end()) return;
    throw Error(ErrorKind::kUsage, "a subset asks for sample " + std::to_string(*wrong) + " of " +
                                       std::to_string(source_->size()) + ", want 0 or more and less than that");
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(ids_.size()); }
  const std::vector<Field>& fields() const override { return source_->fields(); }
  std::string name_of(std::int64_t id) const override { return source_->name_of(source_id(id)); }
  std::int64_t classes() const override { return source_->classes(); }
  bool is_in_memory() const override { return source_->is_in_memory(); }
  bool is_stream() const override { return source_->is_stream(); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override { source_->read(source_key(key), to); }

  std::optional<FixedSamples> fixed() const override {
    auto whole = source_->fixed();
    if (!whole) return {};
    FixedSamples part{.samples = subset(whole->samples, ids_), .margin = whole->margin};
    if (whole->move) part.move = [this, move = whole->move](const SampleKey& key) { return move(source_key(key)); };
    return part;
  }

 private:
  /// The first samples of a stream are a stream too.
  bool is_beginning() const {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] != static_cast<std::int64_t>(i)) return false;
    }
    return true;
  }
  std::int64_t source_id(std::int64_t id) const { return ids_[static_cast<std::size_t>(id)]; }
  SampleKey source_key(const SampleKey& key) const {
    return {.seed = key.seed, .epoch = key.epoch, .id = source_id(key.id), .ordinal = key.ordinal};
  }

  std::shared_ptr<const SampleSource> source_;
  std::vector<std::int64_t> ids_;
};

class RelabelledSource : public SampleSource {
 public:
  RelabelledSource(std::shared_ptr<const SampleSource> source, std::vector<std::int64_t> labels, std::int64_t classes)
      : source_(std::move(source)), labels_(std::move(labels)), classes_(classes) {}

  std::int64_t size() const override { return source_->size(); }
  const std::vector<Field>& fields() const override { return source_->fields(); }
  std::string name_of(std::int64_t id) const override { return source_->name_of(id); }
  std::int64_t classes() const override { return classes_; }
  bool is_in_memory() const override { return source_->is_in_memory(); }
  bool is_stream() const override { return source_->is_stream(); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    source_->read(key, to);
    std::int64_t label = 0;
    std::memcpy(&label, to[1], sizeof label);
    label = labels_.at(static_cast<std::size_t>(label));
    std::memcpy(to[1], &label, sizeof label);
  }

 private:
  std::shared_ptr<const SampleSource> source_;
  std::vector<std::int64_t> labels_;
  std::int64_t classes_;
};

std::int64_t held_out_samples(std::int64_t samples, double held_out) {
  const std::string asked = "data.split is " + shortest(held_out);
  const bool is_share = held_out > 0 && held_out < 1;
  if (!is_share && !(held_out >= 1 && std::floor(held_out) == held_out)) {
    throw Error(ErrorKind::kRecipe, asked + ", want a share below 1 or a whole number of samples",
                "0.1 holds out a tenth for validation, 1000 a thousand samples");
  }
  // The number is checked as a double, since converting a double that is too large for an integer is undefined.
  const double count = is_share ? std::round(held_out * static_cast<double>(samples)) : held_out;
  if (count < 1 || count >= static_cast<double>(samples)) {
    throw Error(ErrorKind::kRecipe, asked + ", which leaves " + std::string(count < 1 ? "none" : "all") + " of the " +
                                        std::to_string(samples) +
                                        " samples for validation, want at least one in each part");
  }
  return static_cast<std::int64_t>(count);
}

}  // namespace

std::unique_ptr<SampleSource> subset(std::shared_ptr<const SampleSource> source, std::vector<std::int64_t> ids) {
  return std::make_unique<SubsetSource>(std::move(source), std::move(ids));
}

std::unique_ptr<SampleSource> relabelled(std::shared_ptr<const SampleSource> source, std::vector<std::int64_t> labels,
                                         std::int64_t classes) {
  return std::make_unique<RelabelledSource>(std::move(source), std::move(labels), classes);
}

Split drawn_split(std::int64_t samples, double held_out, std::uint64_t seed) {
  Split split;
  split.validation.resize(static_cast<std::size_t>(held_out_samples(samples, held_out)));
  EpochOrder(samples, seed, kSplitEpoch).take(0, split.validation);
  std::ranges::sort(split.validation);
  split.train.reserve(static_cast<std::size_t>(samples) - split.validation.size());
  auto held = split.validation.begin();
  for (std::int64_t id = 0; id < samples; ++id) {
    if (held != split.validation.end() && *held == id) {
      ++held;
    } else {
      split.train.push_back(id);
    }
  }
  return split;
}

}  // namespace lockstep
