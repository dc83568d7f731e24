// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Compression of gradients on their way between ranks, for slow networks.
///
///     lockstep::DataParallelOptions options;
///     options.compression.kind = lockstep::Compression::kBf16;
///     lockstep::DistributedDataParallel ddp(*net, world, options);

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The form in which gradients are sent between ranks. All but kNone change the numbers a little, and pay off if the
/// network is slow.
enum class Compression {
  kNone,
  kFp16,      ///< Half the bytes, rounded to float16 and averaged in it. Numbers beyond 65504 become infinity.
  kBf16,      ///< Half the bytes, with the range of float32 and fewer digits.
  kPowerSgd,  ///< A product of two thin matrices for each weight matrix. The error is added to the next step.
};

struct CompressionOptions {
  Compression kind = Compression::kNone;
  std::int64_t rank = 1;           ///< For powersgd, the columns of the thin matrices.
  std::int64_t start_step = 1000;  ///< For powersgd, the number of first steps that send gradients whole. At least 2.
  double min_rate = 2;             ///< For powersgd, a matrix that would shrink by a smaller factor is sent whole.
  std::uint64_t seed = 0;          ///< For powersgd, the seed of the initial matrices.
};

/// Returns the names none, fp16, bf16 and powersgd.
std::vector<std::string> compression_names();

/// Returns the compression of that name. Throws: Error(kRecipe) for an unknown name.
Compression compression_named(std::string_view name);

}  // namespace lockstep
