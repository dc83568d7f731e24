// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Returns the name of an option of torchrun, accelerate launch or deepspeed, which accept dashes and underscores
/// alike. It is "multi-gpu" for "--multi_gpu" and "num-processes" for "--num_processes=2". Empty for a word that is not
/// an option.
std::string launcher_option(std::string_view word);

/// True if the option of this name takes no value.
bool is_bare_launcher_option(std::string_view name);

/// Returns the index where the launcher's own options end and its program begins, from `words[at]` on.
std::size_t launcher_options_end(std::span<const std::string> words, std::size_t at);

}  // namespace lockstep
