// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/recipe/bench_request.h"
#include "lockstep/recipe/data_request.h"

namespace lockstep {

/// The arguments that main() passes to each command besides its request.
struct DataContext {
  Environment env;
  Log log;
  std::filesystem::path program;  ///< This executable. Built-in recipes lie near it.
};

/// Each function runs the command of its name, as docs/guide/data.md describes it. It throws an Error, whose kind gives
/// the exit code.
void run_convert(const DataRequest& request, const DataContext& context);
void run_verify(const DataRequest& request, const DataContext& context);
void run_info(const DataRequest& request, const DataContext& context);
void run_bench_loader(const LoaderBenchRequest& request, const DataContext& context);

}  // namespace lockstep
