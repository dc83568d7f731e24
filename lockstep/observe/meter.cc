// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/meter.h"

#include <limits>

namespace lockstep {
namespace {

double rate(std::int64_t samples, double seconds) { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }

}  // namespace

double WeightedMean::mean() const {
  if (weight_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return sum_ / static_cast<double>(weight_);
}

double IntervalRate::take() {
  const double result = rate(samples_, seconds_);
  *this = {};
  return result;
}

void Throughput::add(std::int64_t samples, double seconds) {
  if (buckets_[current_].seconds >= bucket_seconds_) {
    current_ = (current_ + 1) % buckets_.size();
    buckets_[current_] = {};
  }
  buckets_[current_].samples += samples;
  buckets_[current_].seconds += seconds;
}

double Throughput::per_second() const {
  Bucket all;
  for (const auto& bucket : buckets_) {
    all.samples += bucket.samples;
    all.seconds += bucket.seconds;
  }
  return rate(all.samples, all.seconds);
}

}  // namespace lockstep
