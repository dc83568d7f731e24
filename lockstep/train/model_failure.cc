// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/model_failure.h"

#include <c10/util/Exception.h>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/device/device_failure.h"
#include "lockstep/models/model_exception.h"

namespace lockstep {
namespace {

// TorchScript prints the stack first, and the reason after the last "Error: ". LibTorch adds its own stack below.
std::string told(const std::exception& error) {
  if (dynamic_cast<const ModelException*>(&error) != nullptr) return error.what();
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  // If a backward function in Python throws, the exception comes through LibTorch. These words then separate the
  // message from the stack trace.
  if (text.find("\n\nAt:\n") != std::string::npos) return text;
  const auto at = text.rfind("Error: ");
  if (text.find("TorchScript interpreter") == std::string::npos || at == std::string::npos) {
    return std::string(first_line(text));
  }
  return std::string(first_line(std::string_view(text).substr(at + 7)));
}

std::string input_of(const Batch& batch) {
  if (batch.fields.empty() || !batch.input().defined()) return "of its samples";
  std::vector<std::string> sizes;
  for (const auto size : batch.input().sizes()) sizes.push_back(std::to_string(size));
  return "[" + joined(sizes, ", ") + "] of " + std::string(c10::toString(batch.input().scalar_type()));
}

}  // namespace

bool is_model_failure(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error) != nullptr) return false;
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return false;
  return !is_device_failure(error);
}

std::string one_line_reason(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return std::string(first_line(ours != nullptr ? std::string(ours->fact()) : told(error)));
}

void throw_model_failure(const std::exception& error, const std::string& where, const Batch& batch) {
  std::throw_with_nested(Error(
      ErrorKind::kRecipe, "the model failed in " + where + ", with an input of " + input_of(batch) + ": " + told(error),
      "see that the model takes such an input, and that its loss fits the targets"));
}

}  // namespace lockstep
