// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Python data sets as samples. Worker processes read the samples, so no thread waits for Python's global lock.
///
///     const auto part = lockstep::python_part({.python = "/venv/bin/python",
///                                              .host = "/opt/lockstep/share/lockstep/lockstep_host",
///                                              .source = "/me/data.py",
///                                              .function = "photographs"},
///                                             "train", /*seed=*/1);
///     if (part) std::cout << part->samples->size() << " photographs\n";

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// The user's Python function that returns the data set, and the Python interpreter that runs it.
struct PythonData {
  std::string python;             ///< The interpreter's path.
  std::filesystem::path host;     ///< The folder lockstep_host.
  std::string source;             ///< A file's absolute path, or the name of a module.
  std::string function;           ///< A function or class in it.
  std::string arguments = "{}";   ///< By name, as a JSON object.
  std::string collate_source{};   ///< The file or module of the collate function. Empty for none.
  std::string collate{};          ///< Makes a batch of a list of samples. It is called with one sample.
  std::int64_t samples = 0;       ///< Samples in an epoch of an iterable data set. 0 for its len().
  std::int64_t eval_samples = 0;  ///< As `samples`, for the parts other than "train".
  int rank = 0;                   ///< Rank of this process, by which iterable data sets are shared out.
  int world = 1;
  int workers = 1;  ///< Number of processes that iterate over the data set.
};

/// One part of a Python data set.
struct PythonPart {
  std::shared_ptr<const SampleSource> samples;
  std::vector<std::string> class_names;  ///< Empty if the data set names none.
};

/// Returns the part `split` of the data set, or nothing if the function gives none. If the function has a parameter
/// `split`, it gets the part's name. If it has `train`, as torchvision's data sets do, it gets true or false. A
/// function with neither has only the part "train".
///
/// An iterable data set has no order of its own. Its workers give the samples in turn, see python_stream().
///
/// The samples have "input" and "target". Each thread that reads has a worker process of its own. The random choices of
/// a sample follow from seed, epoch and sample, whichever worker reads it.
///
/// Throws: Error(kEnvironment) if the interpreter cannot be started or ends; else the errors of the user's code, with
/// the traceback, as Error(kRecipe), Error(kData) or Error(kIo).
std::optional<PythonPart> python_part(const PythonData& data, const std::string& split, std::uint64_t seed);

}  // namespace lockstep
