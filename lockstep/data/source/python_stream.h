// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/python_server.h"

namespace lockstep {

/// Makes the samples of an iterable data set. `part` is what the server says of it. PythonData::workers processes each
/// iterate over it from the epoch's beginning, ahead of the reader. They are asked for a sample by turns, so the order
/// follows from the numbers of ranks and workers. A worker that is at its end is passed over. If all are, they begin
/// again.
///
/// A reading in the middle of an epoch skips what was before. read() throws Error(kData) if two workers give the same
/// samples, or if there are none at all.
std::shared_ptr<const SampleSource> python_stream(std::shared_ptr<PythonServer> server, std::string split,
                                                  const nlohmann::json& part);

}  // namespace lockstep
