// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Quotes `word` so that a shell reads it back unchanged. It is unchanged if it holds nothing special, else in single
/// quotes.
std::string shell_quoted(std::string_view word);

/// The words with spaces between them, each quoted if it must be.
std::string shell_quoted(std::span<const std::string> words);

/// Puts `word` in double quotes if it holds anything special, or a $NAME that the shell is to expand.
std::string shell_expanding(std::string_view word);

/// The same for a line that begins with #SBATCH, which knows double quotes only.
std::string sbatch_quoted(std::string_view word);

/// Escapes a path for sbatch's --output, where % has a meaning.
std::string sbatch_file_name(std::string_view path);

}  // namespace lockstep
