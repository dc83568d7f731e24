// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/script_text.h"

#include <algorithm>
#include <cctype>

namespace lockstep {

void ScriptText::line(std::string_view text) { out_.append(text).append("\n"); }

void ScriptText::lines(const std::vector<std::string>& all) {
  for (const auto& each : all) line(each);
}

void ScriptText::paragraph(std::string_view comment) {
  line("");
  line(std::string("# ").append(comment));
}

void ScriptText::quoted_lines(const std::string& name, const std::vector<std::string>& all) {
  // The word that ends a here-document must differ from every line in it.
  std::string end = name;
  std::ranges::transform(end, end.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  while (std::ranges::find(all, end) != all.end()) end += "_";
  line(name + "=$(cat << '" + end + "'");
  lines(all);
  line(end);
  line(")");
}

}  // namespace lockstep
