// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/json_number.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace lockstep {

nlohmann::json to_json_number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

double from_json_number(const nlohmann::json& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_number()) return value.get<double>();
  if (value.is_null() || value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return kInfinity;
  if (value == "-inf") return -kInfinity;
  throw std::runtime_error(value.dump() + " is no number");
}

}  // namespace lockstep
