// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

// Keeps keys in the order in which they are documented.
using Json = nlohmann::ordered_json;

std::string line_of(const Json& object) {
  // Paths may hold bytes that are not UTF-8. JSON cannot hold them, so they are replaced. A line with a replacement
  // character is better than no line.
  return json_text(object) + '\n';
}

[[noreturn]] void fail(std::string_view action, const std::filesystem::path& path) {
  throw Error(ErrorKind::kIo, system_fact(action, path, errno), "check the run folder's permissions and its disk");
}

std::string text_at(int fd, off_t from, std::size_t bytes, const std::filesystem::path& path) {
  std::string text(bytes, '\0');
  std::size_t used = 0;
  while (used < bytes) {
    const ssize_t got = ::pread(fd, text.data() + used, bytes - used, from + static_cast<off_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  text.resize(used);
  return text;
}

bool is_validation_from(const MetricsLine& line, double first_epoch) {
  if (line.event != "validation") return false;
  const auto epoch = line.values.find("epoch");
  return epoch != line.values.end() && epoch->second >= first_epoch;
}

// The part of metrics.jsonl that stays when a run is resumed.
struct KeptPart {
  off_t bytes = 0;
  std::string snapshots;  ///< Lines behind these bytes that stay all the same.
};

// Returns the part of `text` that stays. It ends with the last complete line up to the step and epoch from which the
// run continues. The line of a snapshot is written once the snapshot is on disk, which may be some steps after its own
// step.
std::optional<KeptPart> kept_of(std::string_view text, const RunStarted& start) {
  std::string snapshots;
  std::size_t end = text.rfind('\n');
  while (end != std::string_view::npos && end > 0) {
    const std::size_t before = text.rfind('\n', end - 1);
    const std::size_t from = before == std::string_view::npos ? 0 : before + 1;
    const auto line = parsed_metrics(text.substr(from, end - from));
    if (line && line->step <= start.first_step && !is_done_again(*line, start)) {
      if (line->event != "snapshot") return KeptPart{static_cast<off_t>(end + 1), std::move(snapshots)};
      snapshots.insert(0, text.substr(from, end + 1 - from));
    }
    end = before;
  }
  return std::nullopt;
}

// Returns the part of a file that stays. Steps only grow along the file, except for snapshots. So the end of this part
// is searched from the end of the file. A resumed run then reads no more of a long file than of a short one.
KeptPart kept_part(int fd, const RunStarted& start, const std::filesystem::path& path) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) fail("seek", path);
  off_t from = size;
  std::string text;
  for (off_t window = 65536; from > 0; window *= 4) {
    from = std::max<off_t>(0, size - window);
    text = text_at(fd, from, static_cast<std::size_t>(size - from), path);
    if (auto kept = kept_of(text, start)) {
      kept->bytes += from;
      return *kept;
    }
  }
  const auto first_end = text.find('\n');
  if (first_end != std::string::npos && !parsed_metrics(std::string_view(text).substr(0, first_end))) {
    throw Error(ErrorKind::kEnvironment,
                "'" + path.string() + "' is there, and its first line is not a metrics line of Lockstep",
                "choose another folder with --run-dir, or move that file away");
  }
  return {};
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, WallClock now) : path_(std::move(path)), now_(std::move(now)) {}

Verdict MetricsFile::on(const RunStarted& event) {
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) fail("open", path_);
  const auto kept = kept_part(file_.get(), event, path_);
  if (::ftruncate(file_.get(), kept.bytes) != 0) fail("cut", path_);
  write(kept.snapshots);
  Json object{{"event", "run_started"},
              {"step", event.first_step},
              {"time", seconds_now()},
              {"name", event.name},
              {"world", event.world},
              {"epochs", event.epochs},
              {"steps_per_epoch", event.steps_per_epoch},
              {"steps_total", event.steps_total},
              {"batch", event.batch},
              {"global_batch", event.global_batch},
              {"parameters", event.parameters},
              {"first_epoch", event.first_epoch},
              {"resumed_from", nullptr},
              {"facts", event.facts}};
  if (event.resumed_from) object["resumed_from"] = event.resumed_from->string();
  write(line_of(object));
  return Verdict::kContinue;
}

Verdict MetricsFile::on(const StepEnded& event) {
  rate_.add(event.samples, event.seconds);
  if (!event.loss) return Verdict::kContinue;
  write(line_of({{"event", "step"},
                 {"step", event.step},
                 {"time", seconds_now()},
                 {"epoch", event.epoch},
                 {"step_in_epoch", event.step_in_epoch},
                 {"loss", *event.loss},
                 {"learning_rate", event.learning_rate},
                 {"samples_per_second", rate_.take()}}));
  return Verdict::kContinue;
}

Verdict MetricsFile::on(const ValidationEnded& event) {
  write(line_of({{"event", "validation"},
                 {"step", event.step},
                 {"time", seconds_now()},
                 {"epoch", event.epoch},
                 {"samples", event.samples},
                 {"seconds", event.seconds},
                 {"train_loss", event.train_loss},
                 {"metrics", event.metrics}}));
  return Verdict::kContinue;
}

Verdict MetricsFile::on(const SnapshotWritten& event) {
  // Only the snapshot's name is written and not its path, so that the run folder can be moved.
  write(line_of({{"event", "snapshot"},
                 {"step", event.step},
                 {"time", seconds_now()},
                 {"epoch", event.epoch},
                 {"snapshot", event.path.filename().string()},
                 {"bytes", event.bytes},
                 {"seconds", event.seconds}}));
  return Verdict::kContinue;
}

Verdict MetricsFile::on(const RunEnded& event) {
  Json object = {{"event", "run_ended"},
                 {"step", event.step},
                 {"time", seconds_now()},
                 {"epochs", event.epochs},
                 {"samples", event.samples},
                 {"stopped_by", event.stopped_by},
                 {"seconds", event.seconds},
                 {"samples_per_second", event.samples_per_second},
                 {"time_to_first_step_s", event.time_to_first_step_s},
                 {"metrics", event.metrics}};
  if (!event.facts.empty()) object["facts"] = event.facts;
  if (event.device_peak_bytes) object["device_peak_bytes"] = *event.device_peak_bytes;
  write(line_of(object));
  return Verdict::kContinue;
}

void MetricsFile::write(std::string_view line) {
  LOCKSTEP_ASSERT(file_);
  write_all(file_.get(), std::as_bytes(std::span(line)), path_);
}

bool is_done_again(const MetricsLine& line, const RunStarted& start) {
  return is_validation_from(line, static_cast<double>(start.first_epoch));
}

std::vector<MetricsLine> metrics_from(const std::filesystem::path& path, std::int64_t step) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return {};
  if (!file) fail("open", path);
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size < 0) fail("seek", path);
  std::vector<MetricsLine> lines;
  off_t from = size;
  for (off_t window = 65536; from > 0; window *= 4) {
    from = std::max<off_t>(0, size - window);
    const auto text = text_at(file.get(), from, static_cast<std::size_t>(size - from), path);
    lines.clear();
    bool has_earlier = false;
    // If the window begins within a line, its first line is incomplete, and is no JSON object.
    for (const auto& each : split(text, '\n')) {
      auto line = parsed_metrics(each);
      if (!line) continue;
      has_earlier |= line->step < step && line->event != "snapshot";
      if (line->step >= step) lines.push_back(std::move(*line));
    }
    if (has_earlier) break;
  }
  return lines;
}

std::optional<MetricsLine> parsed_metrics(std::string_view text) {
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto event = object.find("event");
  const auto step = object.find("step");
  if (event == object.end() || !event->is_string() || step == object.end() || !step->is_number_integer()) {
    return std::nullopt;
  }
  MetricsLine line{.event = event->get<std::string>(), .step = step->get<std::int64_t>(), .values = {}, .texts = {}};
  const auto take = [&line](const std::string& key, const Json& value) {
    if (value.is_number()) line.values[key] = value.get<double>();
    if (value.is_null()) line.values[key] = std::numeric_limits<double>::quiet_NaN();
    if (value.is_string()) line.texts[key] = value.get<std::string>();
  };
  for (const auto& [key, value] : object.items()) {
    take(key, value);
    if (!value.is_object()) continue;
    for (const auto& [inner, number] : value.items()) take(key + "." + inner, number);
  }
  return line;
}

namespace {

// Removes the lines that a later start has written again, or will write again.
void drop_repeated(std::vector<MetricsLine>& lines) {
  double first_epoch = std::numeric_limits<double>::infinity();
  std::vector<MetricsLine> kept;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (is_validation_from(*line, first_epoch)) continue;
    if (const auto it = line->values.find("first_epoch"); it != line->values.end() && line->event == "run_started") {
      first_epoch = std::min(first_epoch, it->second);
    }
    kept.push_back(std::move(*line));
  }
  std::ranges::reverse(kept);
  lines = std::move(kept);
}

}  // namespace

Metrics read_metrics(const std::filesystem::path& path) {
  const std::string text = text_of_file(path);
  Metrics metrics;
  std::int64_t number = 1;
  std::size_t from = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', from), ++number) {
    if (auto line = parsed_metrics(std::string_view(text).substr(from, end - from))) {
      metrics.lines.push_back(std::move(*line));
    } else {
      metrics.damaged.push_back(number);
    }
    from = end + 1;
  }
  drop_repeated(metrics.lines);
  return metrics;
}

}  // namespace lockstep
