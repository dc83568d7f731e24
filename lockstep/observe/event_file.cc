// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/event_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

using Lines = std::vector<MetricsLine>;

// The scalars of a logged step, and the keys of its line in metrics.jsonl.
constexpr auto kLogged = std::to_array<std::pair<const char*, const char*>>(
    {{"train_loss", "loss"}, {"learning_rate", "learning_rate"}, {"samples_per_second", "samples_per_second"}});

// Returns the largest time in the names of the folder's event files. TensorBoard reads these files in the order of
// their names.
std::int64_t newest_time(const std::filesystem::path& folder) {
  std::int64_t newest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error); !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view rest = std::string_view(name).substr(kPrefix.size());
    newest = std::max(newest, parsed_int<std::int64_t>(rest.substr(0, rest.find('.'))).value_or(0));
  }
  return newest;
}

}  // namespace

TensorBoardFile::TensorBoardFile(std::filesystem::path folder, const ProcessIdentity& self, WallClock now)
    : folder_(std::move(folder)), host_(self.host), pid_(self.pid), now_(std::move(now)) {}

Verdict TensorBoardFile::on(const RunStarted& event) {
  const double now = unix_seconds(now_());
  const auto time = std::max(static_cast<std::int64_t>(now), newest_time(folder_) + 1);
  path_ = folder_ / (std::string(kPrefix) + std::to_string(time) + '.' + host_ + '.' + std::to_string(pid_) + ".0");
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) {
    throw Error(ErrorKind::kIo, system_fact("create", path_, errno), "check the run folder's permissions and its disk");
  }
  // A resumed run may repeat the validation of the step from which it resumes. TensorBoard can only drop all values of
  // this step, so the other values are written again.
  auto lines = event.first_step > 0 ? metrics_from(folder_ / "metrics.jsonl", event.first_step) : Lines{};
  const bool is_again = std::ranges::any_of(lines, [&](const auto& line) { return is_done_again(line, event); });
  const auto first = is_again ? event.first_step : event.first_step + 1;
  const std::string head = event_record(version_event(now)) + event_record(session_start_event(now, first));
  write_all(file_.get(), std::as_bytes(std::span(head)), path_);
  for (const auto& line : lines) {
    if (is_again && line.event == "step" && line.step == event.first_step) write_again(line);
  }
  return Verdict::kContinue;
}

Verdict TensorBoardFile::on(const StepEnded& event) {
  rate_.add(event.samples, event.seconds);
  if (!event.loss) return Verdict::kContinue;
  write(event.step, std::array{Scalar{"train_loss", *event.loss}, Scalar{"learning_rate", event.learning_rate},
                               Scalar{"samples_per_second", rate_.take()}});
  return Verdict::kContinue;
}

Verdict TensorBoardFile::on(const ValidationEnded& event) {
  std::vector<Scalar> scalars = {{"epoch_train_loss", event.train_loss}};
  for (const auto& [name, value] : event.metrics) scalars.push_back({name, value});
  write(event.step, scalars);
  return Verdict::kContinue;
}

void TensorBoardFile::write_again(const MetricsLine& line) {
  std::vector<Scalar> scalars;
  for (const auto& [tag, key] : kLogged) {
    if (const auto it = line.values.find(key); it != line.values.end()) scalars.push_back({tag, it->second});
  }
  write(line.step, scalars);
}

void TensorBoardFile::write(std::int64_t step, std::span<const Scalar> scalars) {
  LOCKSTEP_ASSERT(file_);
  const std::string record = event_record(scalars_event(unix_seconds(now_()), step, scalars));
  write_all(file_.get(), std::as_bytes(std::span(record)), path_);
}

}  // namespace lockstep
