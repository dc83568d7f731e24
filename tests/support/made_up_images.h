// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sample_source.h"

namespace lockstep::testing {

/// A source of images with 3 x 7 x 10 random bytes, which are the same in each epoch.
class MadeUpImages : public SampleSource {
 public:
  std::int64_t size() const override { return 21; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return "image " + std::to_string(id); }
  bool is_in_memory() const override { return true; }
  std::optional<FixedSamples> fixed() const override { return itself(); }
  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    if (key.id == bad) throw Error(ErrorKind::kData, "it is damaged");
    for (std::size_t i = 0; i < fields_[0].bytes(); ++i) {
      to[0][i] = static_cast<std::byte>(mixed(static_cast<std::uint64_t>(key.id), i) & 0xffU);
    }
    *reinterpret_cast<std::int64_t*>(to[1]) = key.id;
  }

  std::int64_t bad = -1;  ///< Cannot be read.

 private:
  std::vector<Field> fields_ = {{"input", "U8", {3, 7, 10}}, {"target", "I64", {}}};
};

}  // namespace lockstep::testing
