// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/cli_data/commands.h"

namespace {

using lockstep::DataCommand;
using lockstep::DataContext;
using lockstep::DataRequest;
using lockstep::LoaderBenchRequest;

int run(int argc, char** argv, const DataContext& context) {
  CLI::App app("What `lockstep data` and `lockstep bench loader` hand over to", "lockstep-data");
  app.require_subcommand(1);
  DataRequest request;
  auto* convert = app.add_subcommand("convert", "Writes image folders into one HDF5 file");
  auto* verify = app.add_subcommand("verify", "Reads and decodes every sample");
  auto* info = app.add_subcommand("info", "What a data set holds");
  bind_options(*convert, request, DataCommand::kConvert);
  bind_options(*verify, request, DataCommand::kVerify);
  bind_options(*info, request, DataCommand::kInfo);
  auto* bench_loader = app.add_subcommand("bench-loader", "Samples a second that are read and decoded");
  LoaderBenchRequest bench_request;
  bind_options(*bench_loader, bench_request);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& complaint) {
    throw lockstep::Error(lockstep::ErrorKind::kUsage, complaint.what(), "`lockstep data --help` shows what there is");
  }
  if (convert->parsed()) lockstep::run_convert(request, context);
  if (verify->parsed()) lockstep::run_verify(request, context);
  if (info->parsed()) lockstep::run_info(request, context);
  if (bench_loader->parsed()) lockstep::run_bench_loader(bench_request, context);
  return 0;
}

}  // namespace

// `lockstep` starts this program, and has checked the command line before. Remaining errors are reported in the same
// way.
int main(int argc, char** argv) {
  const DataContext context{.env = lockstep::Environment::of_process(),
                            .log = lockstep::Log(2, "lockstep: "),
                            .program = std::filesystem::read_symlink("/proc/self/exe")};
  try {
    return run(argc, argv, context);
  } catch (...) {
    return lockstep::report_failure(context.log);
  }
}
