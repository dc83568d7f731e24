// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/observe/progress.h"

namespace lockstep {

/// Shows progress of work that is counted in bytes or in items, such as a download or a conversion.
///
/// On a terminal it draws one live line, at most 10 times a second, and removes it at the end. Elsewhere it prints a
/// line every 10 seconds. A write that fails is ignored.
class WorkBar {
 public:
  using Now = std::function<Clock::time_point()>;

  /// `unit` is the name of the items, such as "images". Empty if bytes are counted.
  WorkBar(ProgressOptions options, std::string label, std::string unit = {}, Now now = Clock::now);
  ~WorkBar();
  WorkBar(const WorkBar&) = delete;
  WorkBar& operator=(const WorkBar&) = delete;

  /// If `all` is 0, the total is unknown. Work reported by the first call is excluded from the rate, as in a resumed
  /// download.
  void show(std::uint64_t done, std::uint64_t all);

 private:
  std::string amount(std::uint64_t value) const;

  ProgressOptions options_;
  std::string label_;
  std::string unit_;
  Now now_;
  bool is_begun_ = false;
  bool is_drawn_ = false;
  std::uint64_t first_ = 0;
  Clock::time_point begun_at_{};
  Clock::time_point shown_at_{};
};

}  // namespace lockstep
