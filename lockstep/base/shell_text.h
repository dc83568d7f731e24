// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// `word` as the shell reads it back unchanged: as it is where it holds nothing special, else in single quotes.
std::string shell_quoted(std::string_view word);

/// The words with spaces between them, each quoted where it must be.
std::string shell_quoted(std::span<const std::string> words);

/// `word` in double quotes where it holds $NAME, which is to be expanded, or anything special.
std::string shell_expanding(std::string_view word);

/// The same for a line that begins with #SBATCH, which knows double quotes only.
std::string sbatch_quoted(std::string_view word);

/// A path for sbatch's --output, where % has a meaning.
std::string sbatch_file_name(std::string_view path);

}  // namespace lockstep
