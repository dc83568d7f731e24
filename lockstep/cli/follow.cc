// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/job/run_job.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{500};
constexpr std::streamoff kMostOfThePast = 64 << 10;  // What a person who comes late is shown of the log.

/// A log that another process appends to.
class Tail {
 public:
  explicit Tail(std::filesystem::path path) : path_(std::move(path)) {}

  /// Prints what has come since the last call; a claim: something has.
  bool print() {
    std::ifstream file(path_, std::ios::binary);
    if (!file) return false;
    file.seekg(0, std::ios::end);
    const auto end = static_cast<std::streamoff>(file.tellg());
    const bool is_late = at_ < 0 && end > kMostOfThePast;
    if (at_ < 0) at_ = is_late ? end - kMostOfThePast : 0;
    if (end <= at_) return false;
    file.seekg(at_);
    std::string text(static_cast<std::size_t>(end - at_), '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    at_ += file.gcount();
    // Not from the middle of a line.
    print_text(is_late ? text.substr(text.find('\n') + 1) : text);
    return true;
  }

 private:
  std::filesystem::path path_;
  std::streamoff at_ = -1;
};

void follow(const std::string& word, const Context& context) {
  const auto run = run_job(word, runs_here(context.env));
  const SlurmQueue view(context.env);
  Tail log(run.path / "logs" / "job.log");
  std::string shown;
  auto asked = std::chrono::steady_clock::time_point::min();
  bool is_queued = true;
  while (true) {
    if (const auto now = std::chrono::steady_clock::now(); asked < now - SlurmQueue::kQueueAge) {
      const auto queue = view.jobs();
      asked = now;
      const auto current = job_record(run.path).value_or(run.record);
      is_queued = queue.contains(current.job);
      if (const auto state = state_of({run.path, current}, queue); state != shown) {
        shown = state;
        context.log.info("job " + current.job + ": " + state);
      }
    }
    if (log.print()) continue;
    if (!is_queued) return;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

void add_follow(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("follow", "Show a submitted run's state in the queue, then its log, to its end");
  auto run = std::make_shared<std::string>();
  command->add_option("RUN", *run, "A run folder, or its name")->required();
  command->callback([run, &context] { follow(*run, context); });
}

}  // namespace lockstep::cli
