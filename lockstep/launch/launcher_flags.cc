// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/launcher_flags.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

/// Source: the argument parsers of PyTorch 2.11, Accelerate 1.15 and DeepSpeed 0.17.
constexpr auto kBareOptions = std::to_array<std::string_view>({"h",
                                                               "help",
                                                               "m",
                                                               "module",
                                                               "no-python",
                                                               "run-path",
                                                               "standalone",
                                                               "use-env",
                                                               "cpu",
                                                               "tpu",
                                                               "ipex",
                                                               "multi-gpu",
                                                               "debug",
                                                               "q",
                                                               "quiet",
                                                               "same-network",
                                                               "use-deepspeed",
                                                               "use-fsdp",
                                                               "tpu-cluster",
                                                               "no-tpu-cluster",
                                                               "tpu-use-sudo",
                                                               "downcast-bf16",
                                                               "use-megatron-lm",
                                                               "use-parallelism-config",
                                                               "no-ssh",
                                                               "no-ssh-check",
                                                               "force-multi",
                                                               "no-local-rank",
                                                               "enable-cpu-affinity",
                                                               "virtual-local-rank",
                                                               "dynamo-use-dynamic",
                                                               "dynamo-use-fullgraph",
                                                               "dynamo-use-regional-compilation",
                                                               "fp8-use-autocast-during-eval"});

}  // namespace

std::string launcher_option(std::string_view word) {
  const auto begin = word.find_first_not_of('-');
  if (begin == 0 || begin == std::string_view::npos) return {};
  std::string name(word.substr(begin, word.find('=') - begin));
  std::ranges::replace(name, '_', '-');
  return name;
}

bool is_bare_launcher_option(std::string_view name) {
  return std::ranges::find(kBareOptions, name) != kBareOptions.end();
}

std::size_t launcher_options_end(std::span<const std::string> words, std::size_t at) {
  while (at < words.size() && words[at].size() > 1 && words[at].front() == '-') {
    const auto& word = words[at];
    if (word == "--") return at + 1;
    at += word.find('=') != std::string::npos || is_bare_launcher_option(launcher_option(word)) ? 1 : 2;
  }
  return std::min(at, words.size());
}

}  // namespace lockstep
