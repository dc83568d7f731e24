// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/option_checks.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

void check_heads(std::int64_t width, std::int64_t heads) {
  check_positive("width", width);
  check_positive("heads", heads);
  if (width % heads == 0) return;
  throw Error(
      ErrorKind::kRecipe,
      "model.heads is " + std::to_string(heads) + ", want one that divides model.width = " + std::to_string(width),
      "each head has an equal part of the width");
}

void check_positive(const std::string& key, std::int64_t value) {
  if (value >= 1) return;
  throw Error(ErrorKind::kRecipe, "model." + key + " is " + std::to_string(value) + ", want at least 1");
}

void check_dropout(const std::string& key, double value) {
  if (value >= 0 && value < 1) return;
  throw Error(ErrorKind::kRecipe, "model." + key + " is " + shortest(value) + ", want 0 or more and less than 1");
}

}  // namespace lockstep
