// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// How gradients travel between ranks. All but kNone change the numbers a little, and pay where the network is slow.
enum class Compression {
  kNone,
  kFp16,      ///< Half the bytes: rounded to float16, averaged in it. Beyond 65504 it is infinity.
  kBf16,      ///< Half the bytes, the range of float32, fewer digits.
  kPowerSgd,  ///< A product of two thin matrices for each weight matrix; what that leaves out is added next time.
};

struct CompressionOptions {
  Compression kind = Compression::kNone;
  std::int64_t rank = 1;           ///< powersgd: columns of the thin matrices.
  std::int64_t start_step = 1000;  ///< powersgd: steps of the run before it that send gradients whole; at least 2.
  double min_rate = 2;             ///< powersgd: matrices that would shrink by less are sent whole.
  std::uint64_t seed = 0;          ///< powersgd: of the matrices that it begins with.
};

/// none fp16 bf16 powersgd
std::vector<std::string> compression_names();

/// Throws: Error(kRecipe) for an unknown name.
Compression compression_named(std::string_view name);

}  // namespace lockstep
