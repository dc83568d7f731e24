// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace lockstep {

/// An exception that a model's own code threw in another language. Its text has all that the model's author needs, with
/// the reason on the first line and the traceback below.
class ModelException : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep
