// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/commands.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/observe/terminal_line.h"
#include "lockstep/recipe/schema.h"

namespace lockstep::cli {

void print_text(const std::string& text) {
  write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "standard output");
}

// A damaged file, or the name of a file, may have bytes that are not UTF-8. JSON cannot hold them, so they are
// replaced.
void print_json(const nlohmann::json& object) { print_text(json_text(object) + "\n"); }

int columns_of(const Environment& env) {
  constexpr int kNarrow = 80;
  if (const auto told = env.get("COLUMNS")) return parsed_int<int>(*told).value_or(kNarrow);
  return ::isatty(STDOUT_FILENO) != 0 ? room_of(STDOUT_FILENO, kNarrow) : kNarrow;
}

std::string common_settings_table(std::size_t columns) {
  constexpr std::size_t kGap = 2;
  std::size_t widest = 0;
  for (const auto key : common_settings()) widest = std::max(widest, key.size());
  std::string out;
  for (const auto key : common_settings()) {
    out += list_row("  " + std::string(key), kGap + widest + kGap, rows_of(key).front()->help, columns);
  }
  return out;
}

}  // namespace lockstep::cli
