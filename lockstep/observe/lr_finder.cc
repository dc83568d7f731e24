// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/lr_finder.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

constexpr double kKept = 0.98;
constexpr std::size_t kSkippedFirst = 10;
constexpr std::size_t kSkippedLast = 1;

std::string short_number(double value) { return significant(value, 3); }

}  // namespace

Verdict LrFinder::on(const StepEnded& event) {
  if (!event.loss) return Verdict::kContinue;
  const double loss = *event.loss;
  mean_ = kKept * mean_ + (1 - kKept) * loss;
  const double smoothed = mean_ / (1 - std::pow(kKept, static_cast<double>(points_.size() + 1)));
  const bool is_lost = !std::isfinite(smoothed) || (points_.size() > 1 && smoothed > stop_factor_ * best_);
  if (is_lost) return Verdict::kStop;
  if (points_.empty() || smoothed < best_) best_ = smoothed;
  points_.push_back({.lr = event.learning_rate, .loss = loss, .smoothed = smoothed});
  return Verdict::kContinue;
}

// The derivative is computed as in numpy.gradient: by central differences, and by one-sided ones at both ends.
std::optional<double> LrFinder::suggestion() const {
  if (points_.size() < kSkippedFirst + kSkippedLast + 2) return std::nullopt;
  const auto first = kSkippedFirst;
  const auto last = points_.size() - kSkippedLast - 1;
  std::size_t steepest = first;
  double least = 0;
  for (auto i = first; i <= last; ++i) {
    const auto before = i == first ? i : i - 1;
    const auto after = i == last ? i : i + 1;
    const double slope = (points_[after].smoothed - points_[before].smoothed) / static_cast<double>(after - before);
    if (i != first && slope >= least) continue;
    least = slope;
    steepest = i;
  }
  return points_[steepest].lr;
}

std::string LrFinder::chart(int columns) const {
  constexpr int kRows = 12;
  constexpr int kMargin = 9;
  const int width = std::max(20, columns - kMargin - 1);
  if (points_.size() < 2) return {};
  double low = points_[0].smoothed;
  double high = low;
  for (const auto& each : points_) {
    low = std::min(low, each.smoothed);
    high = std::max(high, each.smoothed);
  }
  // If the rate is far too large, losses at the end of the curve are huge. The chart shows only the part near and below
  // the first loss.
  high = std::min(high, low + 1.5 * (points_.front().smoothed - low));
  const double span = high > low ? high - low : 1;
  const double from = std::log(points_.front().lr);
  const double reach = std::log(points_.back().lr) - from;
  const auto column_of = [&](double lr) {
    return reach > 0 ? static_cast<int>(std::lround((std::log(lr) - from) / reach * (width - 1))) : 0;
  };
  std::vector<std::string> rows(kRows, std::string(static_cast<std::size_t>(width), ' '));
  const auto marked = suggestion();
  for (const auto& each : points_) {
    const auto row = static_cast<std::size_t>(std::lround((high - std::min(each.smoothed, high)) / span * (kRows - 1)));
    auto& cell = rows[row][static_cast<std::size_t>(column_of(each.lr))];
    if (marked == each.lr) {
      cell = 'O';
    } else if (cell == ' ') {
      cell = '.';
    }
  }
  std::string out;
  for (int row = 0; row < kRows; ++row) {
    auto label = row == 0 ? short_number(high) : row == kRows - 1 ? short_number(low) : std::string();
    label.resize(kMargin - 1, ' ');
    out += label + "|" + rows[static_cast<std::size_t>(row)] + "\n";
  }
  auto scale = short_number(points_.front().lr);
  const auto right = short_number(points_.back().lr);
  scale.resize(static_cast<std::size_t>(width) - std::min(right.size(), static_cast<std::size_t>(width) - 1), ' ');
  return out + std::string(kMargin, ' ') + scale + right + "\n";
}

}  // namespace lockstep
