// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Values over time in bounded memory. It keeps means over intervals of equal length, which grows with the curve.
/// Values may come in any order. O(1) a value.
class TimeCurve {
 public:
  struct Point {
    double time = 0;  ///< The middle of its stretch.
    double value = 0;
  };

  /// `stretch_s` is the initial length of an interval. The length doubles whenever there would be more than `most`
  /// intervals.
  explicit TimeCurve(double stretch_s = 1, std::size_t most = 400) : stretch_s_(stretch_s), most_(most) {}

  void add(double time, double value);
  std::vector<Point> points() const;

 private:
  struct Stretch {
    double sum = 0;
    std::int64_t count = 0;
  };
  void halve();

  double stretch_s_;
  std::size_t most_;
  std::int64_t first_ = 0;  ///< The number of the first stretch, from 1970 on.
  std::vector<Stretch> stretches_;
};

}  // namespace lockstep
