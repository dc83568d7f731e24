// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace lockstep {

/// An exception that a model's own code threw in another language. Its text has all that the person who wrote the model
/// needs: what went wrong on the first line, the traceback below.
class ModelException : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep
