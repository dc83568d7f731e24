// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/record/scaling.h"

namespace lockstep {

/// One run of a study. It is a recipe or a program on a number of nodes, with some settings varied.
struct StudyPoint {
  std::string folder;               ///< Folder of its run, within the study's, such as "01-nodes-2-name-cnn".
  int nodes = 1;                    ///< Or ranks, of a study on this machine.
  std::vector<std::string> sets{};  ///< "model.name=cnn". For a program, the value for the braces in its words,
                                    ///< "lr=0.1".

  std::string label() const;  ///< The varied settings, such as "model.name=cnn".
};

/// A scaling study: a recipe or a program on several numbers of nodes. Its folder has study.json, and a run folder for
/// each point.
struct Study {
  std::filesystem::path folder;
  bool is_local = false;
  bool is_program = false;
  std::string command{};  ///< The command as a shell takes it, to continue the study.
  std::vector<StudyPoint> points{};

  std::filesystem::path run_dir(const StudyPoint& point) const { return folder / point.folder; }
};

/// Returns a point for each number of nodes, combined with each combination of values in "a.b=v,w".
///
/// Throws: as trials_of().
std::vector<StudyPoint> study_points(const std::vector<int>& nodes, const std::vector<std::string>& vary);

/// Throws: Error(kIo).
void write_study(const Study& study);
/// Returns nothing if the folder does not hold a study.
///
/// Throws: Error(kData) if study.json has another content.
std::optional<Study> read_study(const std::filesystem::path& folder);

/// The state of a point's run.
enum class PointState { kAbsent, kWaiting, kRunning, kFinished, kFailed };

/// Returns a point's state from its folder and, for a job, from Slurm's queue. A recipe's run has failed if it ended
/// without a result. A program has failed if it ended with another code than 0.
PointState state_of(const Study& study, const StudyPoint& point, const QueuedJobs& queue);

/// Returns a summary such as "1 of 3 finished, 1 running, 1 waiting".
std::string progress_of(const std::vector<PointState>& states);

/// Writes into the study how long a program took that was started on this machine.
///
/// Throws: Error(kIo).
void write_program_time(const std::filesystem::path& run_dir, int ranks, double seconds);

/// Returns the figures of the points that have finished. A program's time is from its first sample to its last rank's
/// end.
std::vector<ScalingRow> study_rows(const Study& study);

/// Writes scaling.md, scaling.csv, scaling.json and scaling.svg into the study's folder.
void write_results(const Study& study, const std::vector<ScalingRow>& rows);

}  // namespace lockstep
