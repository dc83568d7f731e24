// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/shell_text.h"

#include <algorithm>
#include <cctype>

namespace lockstep {
namespace {

bool is_plain(unsigned char c) {
  return std::isalnum(c) != 0 || std::string_view("_-./:=,@%+").find(static_cast<char>(c)) != std::string_view::npos;
}

std::string double_quoted(std::string_view word, std::string_view escaped) {
  std::string out = "\"";
  for (const char c : word) {
    if (escaped.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string shell_quoted(std::string_view word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_quoted(std::span<const std::string> words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : " ") + shell_quoted(word);
  return out;
}

std::string shell_expanding(std::string_view word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return std::string(word);
  return double_quoted(word, "\"\\`");
}

std::string sbatch_quoted(std::string_view word) {
  // In an #SBATCH line Slurm takes ; and # literally, but treats white space and quotes as a shell does.
  const bool is_one_word = std::ranges::none_of(
      word, [](unsigned char c) { return std::isspace(c) != 0 || c == '"' || c == '\'' || c == '\\' || c == '#'; });
  return is_one_word ? std::string(word) : double_quoted(word, "\"\\");
}

std::string sbatch_file_name(std::string_view path) {
  std::string out;
  for (const char c : path) out += c == '%' ? std::string("%%") : std::string(1, c);
  return out;
}

}  // namespace lockstep
