// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <cstring>

namespace lockstep {
namespace {

constexpr std::string_view kBetween = "\n  hint: ";

std::string joined(std::string_view fact, std::string_view hint) {
  std::string text(fact);
  if (!hint.empty()) text.append(kBetween).append(hint);
  return text;
}

}  // namespace

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kRecipe:
      return 3;
    case ErrorKind::kEnvironment:
      return 4;
    case ErrorKind::kData:
      return 5;
    case ErrorKind::kIo:
      return 6;
    case ErrorKind::kPeer:
      return 7;
    case ErrorKind::kBug:
      return 1;
  }
  return 1;
}

Error::Error(ErrorKind kind, std::string_view fact, std::string_view hint)
    : std::runtime_error(joined(fact, hint)),
      kind_(kind),
      fact_size_(fact.size()),
      hint_begin_(fact.size() + (hint.empty() ? 0 : kBetween.size())) {}

namespace detail {

void assertion_failed(const char* condition, const char* file, int line) {
  const char* slash = std::strrchr(file, '/');
  throw Error(ErrorKind::kBug,
              std::string("broken promise: ") + condition + " (" + (slash ? slash + 1 : file) + ":" +
                  std::to_string(line) + ")",
              "this is a bug in Lockstep; please report it with the command that showed it");
}

}  // namespace detail
}  // namespace lockstep
