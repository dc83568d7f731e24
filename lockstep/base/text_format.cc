// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count).append(" ").append(noun).append(count == 1 ? "" : "s");
}

std::string significant(double value, int digits) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, value);
  return buffer.data();
}

std::string human_seconds(double seconds) {
  if (seconds < 1e-3) return fixed(seconds * 1e6, 0) + " µs";
  if (seconds < 1) return fixed(seconds * 1e3, seconds < 0.1 ? 2 : 0) + " ms";
  if (seconds < 600) return fixed(seconds, seconds < 10 ? 2 : 1) + " s";
  return hh_mm_ss(std::chrono::seconds(std::llround(seconds)));
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

std::string_view last_line(std::string_view text) {
  const auto body = trimmed(text);
  const auto end = body.rfind('\n');
  return end == std::string_view::npos ? body : body.substr(end + 1);
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(std::string text, std::size_t width) {
  const auto is = width_of(text);
  if (is < width) text.append(width - is, ' ');
  return text;
}

std::string wrapped(std::string_view text, std::size_t width, std::string_view indent) {
  std::string all;
  std::string line(indent);
  bool is_empty = true;
  for (const auto& word : split(text, ' ')) {
    if (!is_empty && width_of(line) + 1 + width_of(word) > width) {
      all += line + "\n";
      line = indent;
      is_empty = true;
    }
    if (!is_empty) line += " ";
    line += word;
    is_empty = false;
  }
  return all + line + "\n";
}

std::string list_row(std::string_view head, std::size_t at, std::string_view text, std::size_t width) {
  // A very narrow terminal still gets a column that is wide enough for one word.
  constexpr std::size_t kLeast = 20;
  const std::string lines = wrapped(text, std::max(width, at + kLeast), std::string(at, ' '));
  if (width_of(head) + 1 > at) return std::string(head) + "\n" + lines;
  return padded(std::string(head), at) + lines.substr(at);
}

std::string zero_padded(std::int64_t number, std::size_t width) {
  LOCKSTEP_ASSERT(number >= 0);
  const std::string digits = std::to_string(number);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

std::string fit_for_a_file(std::string_view text, std::string_view kept) {
  std::string name(text);
  const auto is_odd = [kept](unsigned char c) {
    return std::isalnum(c) == 0 && kept.find(static_cast<char>(c)) == std::string_view::npos;
  };
  std::ranges::replace_if(name, is_odd, '-');
  return name;
}

std::string expand_template(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  while (true) {
    const auto open = text.find('{');
    const auto close = text.find('}', open);
    if (close == std::string_view::npos) return out.append(text);
    out.append(text.substr(0, open));
    const std::string name(text.substr(open + 1, close - open - 1));
    const bool is_shell = open > 0 && text[open - 1] == '$';
    const auto found = values.find(name);
    if (!is_shell && found == values.end()) {
      const auto known = map_each(values, [](const auto& each) { return "{" + each.first + "}"; });
      throw Error(ErrorKind::kRecipe, "there is nothing to fill in for '{" + name + "}'",
                  "the places here are " + joined(known, ", "));
    }
    out.append(is_shell ? "{" + name + "}" : found->second);
    text.remove_prefix(close + 1);
  }
}

std::string rank_name(std::int64_t rank) { return "rank-" + zero_padded(rank, 4); }

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

}  // namespace lockstep
