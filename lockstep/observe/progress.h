// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/base/environment.h"
#include "lockstep/observe/events.h"
#include "lockstep/observe/meter.h"

namespace lockstep {

struct ProgressOptions {
  int fd = 2;
  bool is_terminal = false;
  int columns = 80;  ///< Used if the terminal does not report its width.
  bool colour = false;
  std::int64_t log_every = 0;  ///< Steps between two logged losses. 0 for none.
};

/// Returns options that fit the file descriptor and the user's environment. NO_COLOR, TERM and COLUMNS are respected.
ProgressOptions progress_options(int fd, std::int64_t log_every, const Environment& env);

/// Shows people how far a training is. Only rank 0 should have one.
///
/// On a terminal it draws one live line, at most 10 times a second, and prints a line for
/// each epoch. Elsewhere it only prints lines, one for each epoch and for each logged loss. A run with more than 100 of
/// either prints one every 5 seconds at most, so that 10 000 epochs of one step do not fill a log. A write that fails
/// is ignored.
class Progress final : public Listener {
 public:
  using Now = std::function<Clock::time_point()>;

  explicit Progress(ProgressOptions options, Now now = Clock::now);
  /// Leaves the cursor on an empty line.
  ~Progress() override;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  using Listener::on;
  std::string name() const override { return "progress"; }
  Verdict on(const RunStarted& event) override;
  Verdict on(const EpochStarted& event) override;
  Verdict on(const StepEnded& event) override;
  Verdict on(const ValidationEnded& event) override;
  Verdict on(const RunEnded& event) override;

 private:
  void print(std::string line);
  void print_sparsely(bool are_few, const std::function<std::string()>& line);
  void end_epoch_without_validation();
  void draw(Clock::time_point now);
  std::string epoch_text(std::int64_t epoch) const;
  std::string step_text() const;
  std::string speed_text() const;
  std::string left_text(Clock::time_point now) const;

  ProgressOptions options_;
  Now now_;
  RunStarted run_;
  bool epochs_are_few_ = false;
  bool losses_are_few_ = false;
  Throughput throughput_;
  StepEnded last_;
  std::optional<double> loss_;
  std::int64_t epoch_steps_ = 0;
  bool epoch_is_unreported_ = false;
  bool bar_is_drawn_ = false;
  std::optional<Clock::time_point> first_epoch_at_;
  Clock::time_point drawn_at_{};
  Clock::time_point printed_at_{};
};

}  // namespace lockstep
