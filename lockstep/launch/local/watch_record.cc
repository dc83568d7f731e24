// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/watch_record.h"

#include <fcntl.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/observe/rank_answer.h"
#include "lockstep/observe/requests.h"

namespace lockstep {

WatchRecord::WatchRecord(std::filesystem::path run_dir, const Log& log)
    : run_dir_(std::move(run_dir)), log_(log), watch_(host_name()) {}

void WatchRecord::look(const std::vector<WatchedRank>& ranks) {
  watch_.look(ranks, Clock::now());
  if (const auto news = watch_.news()) tell(*news);
  if (!run_dir_.empty()) answer_requests();
}

void WatchRecord::tell(const std::string& news) {
  const auto& verdict = watch_.verdict();
  verdict ? log_.warning(news) : log_.info(news);
  if (run_dir_.empty()) return;
  const nlohmann::ordered_json line = {
      {"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
      {"kind", verdict ? name_of(verdict->kind) : "goes_on"},
      {"ranks", verdict ? verdict->ranks : std::vector<int>{}},
      {"text", news}};
  try {
    const auto path = run_dir_ / "watch.jsonl";
    const auto file = open_file(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const auto text = line.dump() + "\n";
    if (file) write_all(file.get(), std::as_bytes(std::span(text)), path);
  } catch (const Error& error) {
    log_.warning("watch.jsonl lacks a line: " + std::string(error.fact()));
  }
}

void WatchRecord::answer_requests() {
  for (const auto& request : open_requests(run_dir_, {"why"})) {
    try {
      answer_request(run_dir_, request, answer_of(watch_.ranks(), watch_.verdict()));
    } catch (const Error& error) {
      log_.warning("a request is not answered: " + std::string(error.fact()));
    }
  }
}

}  // namespace lockstep
