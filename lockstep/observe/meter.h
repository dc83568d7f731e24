// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {

/// A weighted mean. Each value is the mean over some samples, and their number is its weight. To get the mean over all
/// ranks, add up the `sum` and the `weight` of all.
class WeightedMean {
 public:
  /// Adds the `mean` over `weight` samples. With weight 0 the mean is ignored, since a rank without samples has no
  /// mean.
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
  /// Returns the mean. NaN if nothing was added.
  double mean() const;

 private:
  double sum_ = 0;
  std::int64_t weight_ = 0;
};

/// Measures samples per second since the last call of rate().
class IntervalRate {
 public:
  void add(std::int64_t samples, double seconds) {
    samples_ += samples;
    seconds_ += seconds;
  }
  /// Returns the rate since the last call, and begins again. Returns 0 if no time has passed.
  double take();

 private:
  std::int64_t samples_ = 0;
  double seconds_ = 0;
};

/// Measures samples per second over about the last `window_seconds` of added time, and up to an eighth more. It needs
/// constant memory and time, and reads no clock.
class Throughput {
 public:
  explicit Throughput(double window_seconds) : bucket_seconds_(window_seconds / static_cast<double>(kBuckets)) {}

  void add(std::int64_t samples, double seconds);
  /// Returns samples per second. 0 if no time has passed.
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
