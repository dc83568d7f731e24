// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/time_curve.h"

#include <cmath>

namespace lockstep {

void TimeCurve::add(double time, double value) {
  if (!std::isfinite(time) || !std::isfinite(value) || std::abs(time) > 1e12) return;
  auto number = static_cast<std::int64_t>(std::floor(time / stretch_s_));
  if (stretches_.empty()) first_ = number;
  // A node's clock may be far off. The interval length then doubles until the curve covers both times.
  while (std::abs(number - first_) >= static_cast<std::int64_t>(most_) ||
         (number < first_ && first_ - number + std::ssize(stretches_) > static_cast<std::int64_t>(most_))) {
    halve();
    number = static_cast<std::int64_t>(std::floor(time / stretch_s_));
  }
  if (number < first_) {
    stretches_.insert(stretches_.begin(), static_cast<std::size_t>(first_ - number), {});
    first_ = number;
  }
  const auto at = static_cast<std::size_t>(number - first_);
  if (at >= stretches_.size()) stretches_.resize(at + 1);
  stretches_[at].sum += value;
  ++stretches_[at].count;
}

std::vector<TimeCurve::Point> TimeCurve::points() const {
  std::vector<Point> points;
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    const auto& each = stretches_[i];
    if (each.count == 0) continue;
    points.push_back({(static_cast<double>(first_) + static_cast<double>(i) + 0.5) * stretch_s_,
                      each.sum / static_cast<double>(each.count)});
  }
  return points;
}

void TimeCurve::halve() {
  const auto first = first_ >= 0 ? first_ / 2 : -((1 - first_) / 2);
  std::vector<Stretch> merged;
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    const auto number = first_ + static_cast<std::int64_t>(i);
    const auto at = static_cast<std::size_t>((number >= 0 ? number / 2 : -((1 - number) / 2)) - first);
    if (at >= merged.size()) merged.resize(at + 1);
    merged[at].sum += stretches_[i].sum;
    merged[at].count += stretches_[i].count;
  }
  stretches_ = std::move(merged);
  first_ = first;
  stretch_s_ *= 2;
}

}  // namespace lockstep
