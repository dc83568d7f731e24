// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/python_server.h"

namespace lockstep {

/// Makes the samples of an iterable data set. `part` is the server's description of it. PythonData::workers processes
/// iterate over the data set from the epoch's beginning, ahead of the reader. Each gives a sample in turn, so the order
/// of samples follows from the numbers of ranks and workers. A worker that has reached the data set's end is left out.
/// When all have, they begin again.
///
/// A run that resumes in the middle of an epoch skips the samples before. read() throws Error(kData) if two workers
/// give the same samples, or if the data set has no samples.
std::shared_ptr<const SampleSource> python_stream(std::shared_ptr<PythonServer> server, std::string split,
                                                  const nlohmann::json& part);

}  // namespace lockstep
