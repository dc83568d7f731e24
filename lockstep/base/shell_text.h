// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Quotes `word` so that a shell reads exactly this word. A word without special characters is returned as it is, any
/// other in single quotes.
std::string shell_quoted(std::string_view word);

/// Joins the words with spaces. Each word is quoted if a shell needs that.
std::string shell_quoted(std::span<const std::string> words);

/// Puts `word` in double quotes if it has special characters or a $NAME. The shell still expands the $NAME.
std::string shell_expanding(std::string_view word);

/// Quotes `word` for a line that begins with #SBATCH. Such lines know double quotes only.
std::string sbatch_quoted(std::string_view word);

/// Escapes a path for sbatch's --output, where % has a meaning.
std::string sbatch_file_name(std::string_view path);

}  // namespace lockstep
