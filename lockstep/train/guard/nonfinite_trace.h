// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/loader/loader.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

/// The origin of numbers that are not finite, as far as it was found. It is the same on all ranks.
struct NonfiniteOrigin {
  ErrorKind kind = ErrorKind::kEnvironment;  ///< kData for a sample, kRecipe for the model, else kEnvironment.
  std::string text;                          ///< "on rank 1, train/ants/7.jpg holds numbers that are not finite"
  std::string hint;
};

/// Finds the rank, the samples and the operation whose result first was not finite, by running a step's batches again.
///
/// The step's update was skipped, so no weight has changed since. The same batches therefore give the same numbers, and
/// each operation's inputs and outputs are checked. Gradients are computed separately, so nothing is averaged and no
/// gradient of the training changes. Every rank runs all of its batches, since layers may communicate with other ranks.
class NonfiniteTrace {
 public:
  /// Runs batch `index` of the step again and returns its loss with its graph. Undefined if the rank runs nothing.
  using Loss = std::function<at::Tensor(const Batch& batch, std::size_t index)>;

  /// The arguments must outlive this object. `source` gives the names of samples.
  NonfiniteTrace(const torch::nn::Module& module, const SampleSource& source, Group& group);

  /// Returns the origin. The first rank with a sample that is not finite comes before one whose model fails.
  /// Collective: yes. Throws: what `loss` throws.
  NonfiniteOrigin find(const std::vector<Batch>& batches, const Loss& loss) const;

 private:
  /// The result of this rank. A higher certainty wins.
  struct Finding {
    enum Certainty { kNothing, kModel, kWeights, kData };
    Certainty certainty = kNothing;
    std::string text;
  };

  Finding look_at(const Batch& batch, std::size_t index, const Loss& loss) const;
  std::string bad_weight() const;

  std::string named(const std::vector<std::int64_t>& ids) const;

  const torch::nn::Module& module_;
  const SampleSource& source_;
  Group& group_;
  std::map<const void*, std::string> names_;  ///< Of the parameters.
};

}  // namespace lockstep
