// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/watch_journal.h"

#include <fcntl.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep {

void tell_news(const std::string& news, const std::optional<WatchVerdict>& verdict,
               const std::filesystem::path& run_dir, const Log& log) {
  verdict ? log.warning(news) : log.info(news);
  if (run_dir.empty()) return;
  const nlohmann::ordered_json line = {
      {"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
      {"kind", verdict ? name_of(verdict->kind) : "goes_on"},
      {"ranks", verdict ? verdict->ranks : std::vector<int>{}},
      {"text", news}};
  try {
    const auto path = run_dir / "watch.jsonl";
    const auto file = open_file(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const auto text = line.dump() + "\n";
    if (file) write_all(file.get(), std::as_bytes(std::span(text)), path);
  } catch (const Error& error) {
    log.warning("watch.jsonl lacks a line: " + std::string(error.fact()));
  }
}

}  // namespace lockstep
