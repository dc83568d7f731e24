// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/exit_record.h"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSignalled = 128;  // A shell adds this to a signal's number.

void append_line(const fs::path& path, const json& object) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) throw io_error("open", path, errno);
  const auto line = json_text(object) + "\n";
  write_all(file.get(), std::as_bytes(std::span(line)), path);
}

std::optional<LauncherFailure> launcher_failure_in(const json& object) {
  if (!object.contains("launched")) return std::nullopt;
  const auto& launched = object.at("launched");
  return LauncherFailure{.launcher = launched.at("launcher"), .rank = launched.at("rank"), .code = launched.at("code")};
}

std::optional<int> told_by_in(const json& object) {
  if (!object.contains("told_by")) return std::nullopt;
  return object.at("told_by").get<int>();
}

RankExit rank_exit(const json& object) {
  return {.job = object.at("job"),
          .start = object.at("start"),
          .restart = object.value("restart", 0),
          .rank = object.at("rank"),
          .node = object.at("node"),
          .code = object.at("code"),
          .signal = object.at("signal"),
          .is_lost = object.value("lost", false),
          .time = object.at("time"),
          .last = object.value("last", std::vector<std::string>{}),
          .doing = object.value("doing", std::string()),
          .told_by = told_by_in(object),
          .launched = launcher_failure_in(object)};
}

void take_line(std::string_view line, ExitRecords& records) {
  try {
    const auto object = json::parse(line);
    if (object.contains("rank")) {
      records.ranks.push_back(rank_exit(object));
    } else {
      records.jobs.push_back(
          {.job = object.at("job"), .code = object.at("code"), .state = object.value("state", std::string())});
    }
  } catch (const json::exception&) {
    // The line is incomplete, because its node failed or its disk was full. It is skipped.
  }
}

/// True if `code`, as a shell reports it, means that a signal ended the program.
bool is_signal(int code) { return code > kSignalled && code <= kSignalled + SIGRTMAX; }

/// Returns a signal's name, such as "SIGKILL", or "signal 64" if it has none.
std::string signal_name(int signal) {
  const char* short_name = ::sigabbrev_np(signal);
  return short_name != nullptr ? "SIG" + std::string(short_name) : "signal " + std::to_string(signal);
}

/// Returns the usual reason for a signal or a code, with "; " before it.
std::string usual_reason(int code) {
  switch (code) {
    case kSignalled + SIGKILL:
      return "; often memory";
    case kSignalled + SIGBUS:
      return "; often a full /dev/shm or disk";
    default:
      return {};
  }
}

/// Returns a text such as ", by SIGKILL (137; often memory)" or ", with code 5". A program whose own child was killed
/// may exit by itself with the same number.
std::string how_words(int code) { return (is_signal(code) ? ", by " : ", with ") + exit_code_text(code); }

/// Returns when the rank failed, as far as anyone noticed. Others may have ended with its error before it did.
double time_of_failure(const RankExit& rank, const std::vector<RankExit>& all) {
  double time = rank.time;
  for (const auto& each : all) {
    if (each.told_by == rank.rank) time = std::min(time, each.time);
  }
  return time;
}

}  // namespace

bool RankExit::is_cause() const {
  return !told_by && code != 0 && code != kExitStopped && code != exit_code(ErrorKind::kPeer);
}

const JobExit* ExitRecords::end_of_job(const std::string& job) const {
  for (auto each = jobs.rbegin(); each != jobs.rend(); ++each) {
    if (each->job == job) return &*each;
  }
  return nullptr;
}

void append_exit(const fs::path& run_dir, const RankExit& exit) {
  json object = {{"job", exit.job},   {"start", exit.start},   {"rank", exit.rank}, {"node", exit.node},
                 {"code", exit.code}, {"signal", exit.signal}, {"time", exit.time}};
  if (exit.restart > 0) object["restart"] = exit.restart;
  if (exit.is_lost) object["lost"] = true;
  if (!exit.last.empty()) object["last"] = exit.last;
  if (!exit.doing.empty()) object["doing"] = exit.doing;
  if (exit.told_by) object["told_by"] = *exit.told_by;
  if (exit.launched) {
    object["launched"] = {
        {"launcher", exit.launched->launcher}, {"rank", exit.launched->rank}, {"code", exit.launched->code}};
  }
  append_line(run_dir / ("exits-" + exit.node + ".jsonl"), object);
}

void append_exit(const fs::path& run_dir, const JobExit& exit) {
  append_line(run_dir / "exits.jsonl", {{"job", exit.job}, {"code", exit.code}, {"state", exit.state}});
}

ExitRecords read_exits(const fs::path& run_dir) {
  ExitRecords records;
  for (const auto& name : names_in(run_dir)) {
    if (!name.starts_with("exits") || !name.ends_with(".jsonl")) continue;
    for (const auto& line : split(text_or_nothing(run_dir / name), '\n')) {
      if (!line.empty()) take_line(line, records);
    }
  }
  return records;
}

std::optional<FirstExit> first_exit(const ExitRecords& records, const std::string& job) {
  std::vector<RankExit> ranks;
  std::ranges::copy_if(records.ranks, std::back_inserter(ranks), [&](const auto& each) { return each.job == job; });
  if (ranks.empty()) return std::nullopt;
  const auto turn = [](const RankExit& each) { return std::pair(each.start, each.restart); };
  const auto last = turn(std::ranges::max(ranks, {}, turn));
  std::erase_if(ranks, [&](const auto& each) { return turn(each) != last; });
  const auto known = static_cast<int>(ranks.size());
  std::erase_if(ranks, [](const auto& each) { return each.code == 0 || each.code == kExitStopped; });
  if (ranks.empty()) return std::nullopt;
  const auto first_of = [&](const auto& each) { return std::pair(!each.is_cause(), time_of_failure(each, ranks)); };
  std::swap(ranks.front(), *std::ranges::min_element(ranks, {}, first_of));
  FirstExit first{.rank = ranks.front(), .failed = static_cast<int>(ranks.size()), .known = known};
  if (ranks.size() > 1) {
    const auto next = std::ranges::min_element(ranks.begin() + 1, ranks.end(), {}, &RankExit::time);
    first.ahead_s = std::max(0.0, next->time - first.rank.time);
  }
  return first;
}

std::string exit_code_text(int code) {
  if (!is_signal(code)) return "code " + std::to_string(code);
  return signal_name(code - kSignalled) + " (" + std::to_string(code) + usual_reason(code) + ")";
}

std::string to_text(const FirstExit& first) {
  const auto& rank = first.rank;
  const std::string place = "rank " + std::to_string(rank.rank) + " on " + rank.node;
  if (rank.is_lost) return place + " was lost with its parent process, mostly with the node";
  const std::string who = place + " ended";
  const auto launched = rank.launched
                            ? "; " + rank.launched->launcher + " there says that its rank " +
                                  std::to_string(rank.launched->rank) + " failed first" + how_words(rank.launched->code)
                            : std::string();
  const auto how = how_words(rank.code) + (rank.doing.empty() ? std::string() : ", in " + rank.doing);
  if (!first.ahead_s) return who + how + launched + (first.known > 1 ? "; the other ranks ended well" : "");
  return who + " first" + how + ", " + human_seconds(*first.ahead_s) + " before the others" + launched;
}

}  // namespace lockstep
