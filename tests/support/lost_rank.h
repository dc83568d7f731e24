// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::testing {

/// True if an error of what ranks did, such as "added up a tensor", says that `rank` is gone. It may name other ranks
/// too: once rank 0 and its store have ended, a rank that has left cannot be told from one that was killed.
inline bool names_lost(const std::string& text, const std::string& action, int rank) {
  const auto begin = text.find("while ranks " + action + ", rank");
  const auto end = text.find(" gone: their connections have closed");
  const auto end_of_one = text.find(" gone: its connection has closed");
  if (begin == std::string::npos || (end == std::string::npos && end_of_one == std::string::npos)) return false;
  const auto named = text.substr(begin, (end == std::string::npos ? end_of_one : end) - begin);
  const auto number = " " + std::to_string(rank);
  return named.find(number + " ") != std::string::npos || named.find(number + ",") != std::string::npos;
}

}  // namespace lockstep::testing
