// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/request_watch.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/system_files.h"
#include "lockstep/observe/rank_answer.h"
#include "lockstep/watch/native_stack.h"

namespace lockstep {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);

void warn(std::string_view why) noexcept {
  try {
    Log(2, "lockstep: ").warning("a request is not answered: " + std::string(why));
  } catch (const std::exception&) {
    // There is no memory for the warning.
  }
}

nlohmann::json refusal(const char* reason) { return {{"state", "refused"}, {"reason", reason}}; }

}  // namespace

RequestWatch::RequestWatch(std::filesystem::path run_dir)
    : run_dir_(std::move(run_dir)), is_alone_(!Environment::of_process().get(kPageVariable)), watch_(host_name()) {
  // Under `lockstep launch` the parent answers, and only the rank knows the folder.
  if (!is_alone_) Page::own().set_run_dir(std::filesystem::absolute(run_dir_).string());
  for (const auto& request : open_requests(run_dir_, {"stop", "save"})) {
    answer(request, refusal("it was left before the run started: ask again"));
  }
  thread_ = std::thread([this] { run(); });
}

RequestWatch::~RequestWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
  try {
    answer_all();
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void RequestWatch::answer_all() {
  look();
  for (const auto& each : open_) {
    const bool is_kept = each.request.kind == "stop" || (newest_ && newest_->step >= each.step.value_or(0));
    answer(each.request, is_kept ? done() : refusal("the training has ended without another snapshot"));
  }
}

// Requests are watched in a separate thread. The training must not wait for a slow file system, and a request must not
// wait for a slow step.
void RequestWatch::run() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    lock.unlock();
    look();
    lock.lock();
    changed_.wait_for(lock, kLookEvery, [this] { return is_over_; });
  }
}

void RequestWatch::look() {
  if (is_alone_) answer_why();
  for (const auto& request : open_requests(run_dir_, {"stop", "save"})) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::any_of(open_, [&](const auto& each) { return each.request.id == request.id; })) continue;
    open_.push_back({.request = request});
    answer(request, {{"state", "seen"}});
    (request.kind == "stop" ? wants_stop_ : wants_save_) = true;
  }
}

void RequestWatch::answer_why() {
  // While this thread looks, the process is running, so the state in /proc does not show whether the training is
  // stopped.
  WatchedRank own{.rank = 0, .pid = ::getpid(), .page = sight_of(Page::own().layout()), .state = '?'};
  watch_.look({own}, Clock::now());
  for (const auto& request : open_requests(run_dir_, {"why"})) {
    const auto stack = read_native_stack(Page::own().layout(), ::getpid());
    nlohmann::json view = {{"stack", nullptr}, {"stack_note", nullptr}};
    stack.frames.empty() ? view["stack_note"] = stack.note : view["stack"] = stack.frames;
    answer(request, answer_of(watch_.ranks(), watch_.verdict(), {{"0", view}}));
  }
}

void RequestWatch::begin_save(std::int64_t step) {
  if (!wants_save_) return;
  const std::lock_guard lock(mutex_);
  wants_save_ = false;
  for (auto& each : open_) {
    if (each.request.kind == "save" && !each.step) each.step = step;
  }
}

void RequestWatch::written(const SnapshotWritten& snapshot) {
  const std::lock_guard lock(mutex_);
  newest_ = snapshot;
  std::erase_if(open_, [&](const auto& each) {
    if (each.request.kind != "save" || !each.step || *each.step > snapshot.step) return false;
    answer(each.request, done());
    return true;
  });
}

// A failure here must not end the training. If the folder cannot be written, it only prints a warning.
void RequestWatch::answer(const Request& request, const nlohmann::json& answer) const {
  try {
    answer_request(run_dir_, request, answer);
  } catch (const Error& error) {
    warn(error.fact());
  }
}

nlohmann::json RequestWatch::done() const {
  nlohmann::json answer = {{"state", "done"}, {"step", nullptr}, {"snapshot", nullptr}};
  if (newest_) {
    answer["step"] = newest_->step;
    answer["snapshot"] = newest_->path.string();
  }
  return answer;
}

}  // namespace lockstep
