// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/billing.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::string billed_text(double hours, const std::string& unit) {
  auto digits = fixed(hours, hours < 1 ? 5 : 2);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits + " " + unit;
}

JobBilling billing_from(const nlohmann::json& record) {
  const auto billing = record.value("billing", nlohmann::json::object());
  return {.unit = billing.value("unit", JobBilling{}.unit), .per_hour = billing.value("per_hour", 0.0)};
}

JobBilling billing_of_run(const std::filesystem::path& run_dir) {
  const auto path = run_dir / "job.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  try {
    return billing_from(nlohmann::json::parse(text_of_file(path)));
  } catch (const nlohmann::json::exception&) {
    return {};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace lockstep
