// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Builds a shell script line by line. Each paragraph begins with an empty line and a comment.
class ScriptText {
 public:
  void line(std::string_view text);
  void lines(const std::vector<std::string>& all);
  void paragraph(std::string_view comment);

  /// Adds `name=$(cat << 'NAME' … NAME)`, which stores the lines unchanged in a variable. Another shell runs them
  /// later.
  void quoted_lines(const std::string& name, const std::vector<std::string>& all);

  std::string take() && { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace lockstep
