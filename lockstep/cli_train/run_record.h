// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "lockstep/base/log.h"
#include "lockstep/observe/events.h"
#include "lockstep/observe/run_folder.h"

namespace lockstep {

/// Writes recipe.toml and layout.json, once everything that could refuse the run has passed. A start from scratch in a
/// used folder moves the earlier run into `abandoned-<time>/`, with its snapshots, `best`, `latest`, metrics, event
/// files, traces and result. A start from an earlier snapshot moves the later ones there. So nobody takes them for
/// files of this run. Only rank 0 has such an object.
class RunRecord final : public Listener {
 public:
  struct Text {
    std::string recipe;
    std::string layout;
  };

  /// If `is_auto`, the run continues from the newest intact snapshot, and nothing is abandoned.
  RunRecord(RunFolder folder, Text text, bool is_auto, Log log)
      : folder_(std::move(folder)), text_(std::move(text)), is_auto_(is_auto), log_(std::move(log)) {}

  using Listener::on;
  std::string name() const override { return "record"; }
  /// Throws: Error(kIo).
  Verdict on(const RunStarted& event) override;

 private:
  void put_run_aside();
  void put_aside_after(std::int64_t step);

  RunFolder folder_;
  Text text_;
  bool is_auto_;
  Log log_;
};

}  // namespace lockstep
