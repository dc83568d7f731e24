// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <memory>
#include <string>

namespace lockstep {

/// Finds the first result that is not finite. While an object of this class lives, the inputs and outputs of each
/// operation in this thread are checked, and those of the backward passes that it starts. This is slow, since it waits
/// for each operation.
///
/// An infinite number is often meant, as in an attention mask. NaN never is. So the origin is the first operation that
/// makes NaN of inputs without NaN, and beside it the last one before that made an infinite number of finite ones.
class OperationWatch {
 public:
  /// `names` gives each parameter's name by its TensorImpl and must outlive this object.
  explicit OperationWatch(const std::map<const void*, std::string>& names);
  ~OperationWatch();
  OperationWatch(const OperationWatch&) = delete;
  OperationWatch& operator=(const OperationWatch&) = delete;

  /// Tells the watch that a backward pass begins.
  void begin_backward();
  /// Returns the finding, such as "aten::log (forward, after weight fc.weight) gave an infinite number". Empty for
  /// none.
  std::string origin() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
  at::CallbackHandle callback_;
};

}  // namespace lockstep
