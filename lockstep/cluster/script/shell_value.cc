// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/shell_value.h"

#include <algorithm>
#include <cctype>

namespace lockstep {
namespace {

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::size_t name_end(std::string_view text, std::size_t begin) {
  auto end = begin;
  if (end < text.size() && !is_name_start(text[end])) return begin;
  while (end < text.size() && is_name_char(text[end])) ++end;
  return end;
}

/// Returns the position behind the bracket that closes the one at `begin`.
std::size_t group_end(std::string_view text, std::size_t begin) {
  const char open = text[begin];
  const char close = open == '(' ? ')' : '}';
  int depth = 0;
  for (auto at = begin; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == open) {
      ++depth;
    } else if (text[at] == close && --depth == 0) {
      return at + 1;
    }
  }
  return text.size();
}

class Expansion {
 public:
  Expansion(std::string_view raw, const ShellVariables& variables) : raw_(raw), variables_(variables) {}

  ShellValue take() {
    while (at_ < raw_.size()) take_one();
    return std::move(value_);
  }

 private:
  void take_one() {
    const char c = raw_[at_];
    if (is_double_ ? c == '"' : (c == '"' || c == '\'')) {
      if (c == '"') {
        is_double_ = !is_double_;
        ++at_;
        return;
      }
      const auto end = std::min(raw_.find('\'', at_ + 1), raw_.size());
      keep(at_ + 1, end);
      at_ = std::min(end + 1, raw_.size());
    } else if (c == '\\' && at_ + 1 < raw_.size()) {
      const bool is_kept = is_double_ && std::string_view("$`\"\\").find(raw_[at_ + 1]) == std::string_view::npos;
      keep(is_kept ? at_ : at_ + 1, at_ + 2);
      at_ += 2;
    } else if (c == '`') {
      leave(std::min(raw_.find('`', at_ + 1), raw_.size() - 1) + 1);
    } else if (c == '$') {
      take_dollar();
    } else {
      keep(at_, at_ + 1);
      ++at_;
    }
  }

  void take_dollar() {
    const auto next = at_ + 1;
    if (next < raw_.size() && raw_[next] == '(') return leave(group_end(raw_, next));
    if (next < raw_.size() && raw_[next] == '{') return take_braces(group_end(raw_, next));
    const auto end = name_end(raw_, next);
    if (end > next) return take_variable(raw_.substr(next, end - next), end);
    // "$?", "$$" and "$1" are known only when the script runs.
    const bool is_special =
        next < raw_.size() && std::string_view("?$!#@*-0123456789").find(raw_[next]) != std::string_view::npos;
    if (is_special) return leave(next + 1);
    keep(at_, at_ + 1);
    ++at_;
  }

  void take_braces(std::size_t end) {
    const auto name_begin = at_ + 2;
    const auto behind = name_end(raw_, name_begin);
    if (behind == name_begin || behind >= end || raw_[behind] != '}') return leave(end);
    take_variable(raw_.substr(name_begin, behind - name_begin), end);
  }

  void take_variable(std::string_view name, std::size_t end) {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return leave(end);
    value_.text += found->second.value.text;
    value_.is_known = value_.is_known && found->second.value.is_known;
    at_ = end;
  }

  void keep(std::size_t begin, std::size_t end) { value_.text += raw_.substr(begin, end - begin); }

  void leave(std::size_t end) {
    value_.is_known = false;
    keep(at_, end);
    at_ = end;
  }

  std::string_view raw_;
  const ShellVariables& variables_;
  std::size_t at_ = 0;
  bool is_double_ = false;
  ShellValue value_;
};

}  // namespace

ShellValue shell_value(std::string_view raw, const ShellVariables& variables) {
  return Expansion(raw, variables).take();
}

std::string assigned_name(std::string_view word) {
  const auto end = name_end(word, 0);
  const bool is_assignment = end > 0 && end < word.size() && (word[end] == '=' || word.substr(end, 2) == "+=");
  return is_assignment ? std::string(word.substr(0, end)) : std::string();
}

std::vector<std::string> names_in(std::string_view raw) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at + 1 < raw.size(); ++at) {
    if (raw[at] != '$') continue;
    const auto begin = at + (raw[at + 1] == '{' ? 2 : 1);
    const auto end = name_end(raw, begin);
    if (end > begin) names.emplace_back(raw.substr(begin, end - begin));
  }
  return names;
}

bool expands_name(std::string_view raw, std::string_view name) {
  // The variable gets a value that occurs nowhere else. If this value is in the result, the shell replaces the name.
  const std::string mark("\x01mark\x02");
  ShellVariables only;
  only[std::string(name)].value.text = mark;
  const auto text = shell_value(raw, only).text;
  return text.find(mark) != std::string::npos;
}

}  // namespace lockstep
