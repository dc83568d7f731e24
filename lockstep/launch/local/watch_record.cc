// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/watch_record.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/observe/rank_answer.h"
#include "lockstep/observe/requests.h"
#include "lockstep/observe/watch_journal.h"

namespace lockstep {

WatchRecord::WatchRecord(std::filesystem::path run_dir, const Log& log)
    : run_dir_(std::move(run_dir)), log_(log), watch_(host_name()) {}

void WatchRecord::look(const std::vector<WatchedRank>& ranks) {
  watch_.look(ranks, Clock::now());
  if (const auto news = watch_.news()) tell_news(*news, watch_.verdict(), run_dir_, log_);
  if (!run_dir_.empty()) answer_requests();
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
