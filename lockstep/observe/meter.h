// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {

/// The mean of values that each stand for a number of samples. Ranks add up `sum` and `weight` to get the mean of all.
class WeightedMean {
 public:
  /// Adds the `mean` over `weight` samples. A weight of 0 adds nothing, whatever the mean, since a rank without samples
  /// has none.
  void add(double mean, std::int64_t weight) {
    if (weight != 0) add_sum(mean * static_cast<double>(weight), weight);
  }
  void add_sum(double sum, std::int64_t weight) {
    sum_ += sum;
    weight_ += weight;
  }
  void add(const WeightedMean& other) { add_sum(other.sum_, other.weight_); }
  void reset() { *this = {}; }

  double sum() const { return sum_; }
  std::int64_t weight() const { return weight_; }
  /// NaN if nothing was added.
  double mean() const;

 private:
  double sum_ = 0;
  std::int64_t weight_ = 0;
};

/// Samples a second since the last time that it was asked.
class IntervalRate {
 public:
  void add(std::int64_t samples, double seconds) {
    samples_ += samples;
    seconds_ += seconds;
  }
  /// Returns 0 if no time has passed. Starts over.
  double take();

 private:
  std::int64_t samples_ = 0;
  double seconds_ = 0;
};

/// Measures samples per second over about the last `window_seconds` of added time, and up to an eighth more. It needs
/// constant memory and time, and no clock.
class Throughput {
 public:
  explicit Throughput(double window_seconds) : bucket_seconds_(window_seconds / static_cast<double>(kBuckets)) {}

  void add(std::int64_t samples, double seconds);
  /// 0 if no time has passed.
  double per_second() const;

 private:
  struct Bucket {
    std::int64_t samples = 0;
    double seconds = 0;
  };
  static constexpr std::size_t kBuckets = 8;

  double bucket_seconds_;
  std::array<Bucket, kBuckets + 1> buckets_{};
  std::size_t current_ = 0;
};

}  // namespace lockstep
