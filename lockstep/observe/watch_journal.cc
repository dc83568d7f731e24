// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/watch_journal.h"

#include <fcntl.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/observe/view_lines.h"

namespace lockstep {

WatchNews news_of(const std::string& text, const std::optional<WatchVerdict>& verdict) {
  if (!verdict) return {.kind = "goes_on", .ranks = {}, .text = text, .views = nullptr};
  return {.kind = std::string(name_of(verdict->kind)), .ranks = verdict->ranks, .text = text, .views = nullptr};
}

void tell_news(const WatchNews& news, const std::filesystem::path& run_dir, const Log& log) {
  auto text = news.text;
  for (const auto rank : news.ranks) {
    const auto view = news.views.is_object() ? news.views.find(std::to_string(rank)) : news.views.end();
    if (view == news.views.end()) continue;
    if (news.ranks.size() > 1) text += "\n  | rank " + std::to_string(rank) + ":";
    for (const auto& line : view_lines(*view)) text += "\n  | " + line;
  }
  news.kind == "goes_on" ? log.info(text) : log.warning(text);
  write_news(news, run_dir, log);
}

void write_news(const WatchNews& news, const std::filesystem::path& run_dir, const Log& log) {
  if (run_dir.empty()) return;
  const nlohmann::ordered_json line = {
      {"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
      {"kind", news.kind},
      {"ranks", news.ranks},
      {"text", news.text},
      {"seen", news.views}};
  try {
    const auto path = run_dir / "watch.jsonl";
    const auto file = open_file(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const auto text = json_text(line) + "\n";
    if (file) write_all(file.get(), std::as_bytes(std::span(text)), path);
  } catch (const Error& error) {
    log.warning("watch.jsonl lacks a line: " + std::string(error.fact()));
  }
}

}  // namespace lockstep
