// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/recipe/bench_request.h"
#include "lockstep/recipe/data_request.h"

namespace lockstep {

/// The surroundings of each command, apart from its request.
struct DataContext {
  Environment env;
  Log log;
  std::filesystem::path program;  ///< This executable. Built-in recipes lie near it.
};

/// Each does what docs/data.md says of the command of that name, and throws an Error whose kind is the exit code.
void run_convert(const DataRequest& request, const DataContext& context);
void run_verify(const DataRequest& request, const DataContext& context);
void run_info(const DataRequest& request, const DataContext& context);
void run_bench_loader(const LoaderBenchRequest& request, const DataContext& context);

}  // namespace lockstep
