// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/observe/progress.h"

namespace lockstep {

/// Shows people how far a piece of work is that is counted in bytes or in things: a download, a conversion.
///
/// On a terminal: one live line, drawn anew at most 10 times a second, and gone at the end, when the command says what
/// came of it. Elsewhere a line every 10 seconds. A write that fails is ignored.
class WorkBar {
 public:
  using Now = std::function<Clock::time_point()>;

  /// `unit` is what is counted, "images"; empty for bytes.
  WorkBar(ProgressOptions options, std::string label, std::string unit = {}, Now now = Clock::now);
  ~WorkBar();
  WorkBar(const WorkBar&) = delete;
  WorkBar& operator=(const WorkBar&) = delete;

  /// `all` 0: not known. What the first call tells as done took no time: earlier work that is gone on with.
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
