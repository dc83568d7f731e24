// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/loader/loader.h"

namespace lockstep {

/// True if a model's own code threw `error`. That is the case if it is neither an Error nor a failure of a device, its
/// memory or its connections.
bool is_model_failure(const std::exception& error);

/// Returns the reason that an exception gives, in one line. For an exception of TorchScript, this is the reason after
/// its stack.
std::string one_line_reason(const std::exception& error);

/// Throws Error(kRecipe) with the model's message, the part of the training and the input. The original exception is
/// nested in it. Call it in a handler of `error`.
[[noreturn]] void throw_model_failure(const std::exception& error, const std::string& where, const Batch& batch);

/// Calls `work`, which runs a model on `batch`. If the model throws, the exception is converted by
/// throw_model_failure(). `where` returns the part of the training, such as "step 12 of epoch 0".
template <typename Where, typename Work>
decltype(auto) naming_model_failures(const Batch& batch, Where&& where, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::exception& error) {
    if (!is_model_failure(error)) throw;
    throw_model_failure(error, std::forward<Where>(where)(), batch);
  }
}

}  // namespace lockstep
