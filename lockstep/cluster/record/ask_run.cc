// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/ask_run.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"
#include "lockstep/observe/process_identity.h"
#include "lockstep/observe/requests.h"
#include "lockstep/observe/run_lock.h"
#include "lockstep/observe/watch_parent.h"

namespace lockstep {
namespace {

bool is_trained_in(const std::filesystem::path& run_dir) {
  return living_holder(run_dir, ProcessIdentity::of_process(Environment::of_process())).has_value();
}

[[noreturn]] void fail_unheard(const std::filesystem::path& run_dir, const std::string& why) {
  throw Error(ErrorKind::kEnvironment, "no training runs in '" + run_dir.string() + "': " + why,
              "`lockstep ls` and `lockstep monitor " + run_dir.string() +
                  "` tell how far it is; your own program decides itself when to save");
}

}  // namespace

bool ask_to_stop(const std::filesystem::path& run_dir, std::chrono::milliseconds patience) {
  if (!is_trained_in(run_dir)) return false;
  const auto request = leave_request(run_dir, "stop");
  const auto answer = await_answer(run_dir, request, false, patience);
  if (!answer) withdraw_request(run_dir, request);
  return answer && answer->value("state", "") != "refused";
}

nlohmann::json snapshot_now(const std::filesystem::path& run_dir, std::chrono::milliseconds patience) {
  if (!is_trained_in(run_dir)) fail_unheard(run_dir, "run.lock has no holder");
  const auto request = leave_request(run_dir, "save");
  if (!await_answer(run_dir, request, false, kSeenWithin)) {
    withdraw_request(run_dir, request);
    fail_unheard(run_dir, "no answer for " + std::to_string(kSeenWithin.count()) + " s");
  }
  const auto answer = await_answer(run_dir, request, true, patience);
  if (!answer) {
    throw Error(ErrorKind::kEnvironment,
                "the training in '" + run_dir.string() + "' has seen the request, and no snapshot was whole within " +
                    std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) + " s",
                "it is written after the step that runs: wait longer with --wait, or look into requests/" + request.id +
                    ".json later");
  }
  if (answer->value("state", "") != "done") {
    throw Error(ErrorKind::kEnvironment,
                "no snapshot was written: " + answer->value("reason", "the run did not say why"),
                "ask again while the run trains");
  }
  return *answer;
}

nlohmann::json ask_why(const std::filesystem::path& run_dir, std::chrono::milliseconds patience) {
  const auto self = ProcessIdentity::of_process(Environment::of_process());
  if (!is_trained_in(run_dir) && !living_watch_parent(run_dir, self)) {
    fail_unheard(run_dir, "run.lock has no holder, and no parent watches its ranks");
  }
  const auto request = leave_request(run_dir, "why");
  auto answer = await_answer(run_dir, request, true, patience);
  if (answer) return *std::move(answer);
  withdraw_request(run_dir, request);
  fail_unheard(run_dir, "no answer for " +
                            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) + " s");
}

}  // namespace lockstep
