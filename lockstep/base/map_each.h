// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

/// Applies `make`, a function or a member's address, to each element. Returns the results in order.
template <typename From, typename Make>
auto map_each(const From& from, Make make) {
  std::vector<std::decay_t<std::invoke_result_t<Make&, decltype(*std::begin(from))>>> out;
  out.reserve(std::size(from));
  for (const auto& each : from) out.push_back(std::invoke(make, each));
  return out;
}

}  // namespace lockstep
