// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/observe/event_record.h"
#include "lockstep/observe/events.h"
#include "lockstep/observe/meter.h"
#include "lockstep/observe/metrics.h"
#include "lockstep/observe/process_identity.h"
#include "lockstep/observe/wall_clock.h"

namespace lockstep {

/// Writes a TensorBoard event file. It holds train_loss, learning_rate and samples_per_second for each logged step, and
/// after each validation epoch_train_loss and the validation's own names.
///
/// Each start of a run writes its own file, opened at RunStarted, whose name sorts after the existing ones. The file
/// begins with a record of a session start. When TensorBoard reads this, it drops values of earlier files beyond the
/// step resumed from. So curves continue without overlap, and no file is changed. This listener must get RunStarted
/// before MetricsFile does, since MetricsFile removes the lines of a validation that is repeated. Each event is written
/// by one system call, without a sync.
///
/// Throws: Error(kIo) if the file cannot be made or written.
class TensorBoardFile final : public Listener {
 public:
  TensorBoardFile(std::filesystem::path folder, const ProcessIdentity& self,
                  WallClock now = std::chrono::system_clock::now);

  using Listener::on;
  std::string name() const override { return "tensorboard"; }
  Verdict on(const RunStarted& event) override;
  Verdict on(const StepEnded& event) override;
  Verdict on(const ValidationEnded& event) override;

  /// The path of the file, once it is open.
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_again(const MetricsLine& line);
  void write(std::int64_t step, std::span<const Scalar> scalars);

  std::filesystem::path folder_;
  std::string host_;
  int pid_;
  WallClock now_;
  std::filesystem::path path_;
  FileDescriptor file_;
  IntervalRate rate_;
};

}  // namespace lockstep
