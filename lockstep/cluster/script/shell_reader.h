// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The block that a command is in. The shell may run it once, not at all, or often.
enum class ShellBlock { kNone, kCondition, kLoop, kFunction };

/// One simple command of a shell script. Words keep their quotes and `$`. Redirections are left out.
struct ShellCommand {
  int line = 0;                            ///< The first line of the command, from 1 on.
  std::vector<std::string> assignments{};  ///< "NAME=value" before the first word.
  std::vector<std::string> words{};
  ShellBlock block = ShellBlock::kNone;
  bool is_background = false;  ///< True if `&` follows.
  bool is_subshell = false;    ///< True if it stands in ( … ) or in a pipe, so that its assignments are lost.
};

/// A shell script, cut into commands. Nothing is run or expanded.
struct ShellText {
  std::vector<ShellCommand> commands{};
  std::vector<std::string> here_documents{};  ///< Their bodies, in order.
  int broken_line = 0;                        ///< The line of a quote or bracket that never ends. 0 for none.
};

/// Splits shell text into commands. It knows quotes, `\` at a line's end, `$(…)`, `${…}`, here documents, comments,
/// loops, conditions and functions. Reading ends at a quote that is never closed. It accepts any bytes.
ShellText read_shell(std::string_view text);

}  // namespace lockstep
