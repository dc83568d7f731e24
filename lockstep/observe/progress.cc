// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/observe/terminal_line.h"

namespace lockstep {
namespace {

constexpr double kSpeedWindowSeconds = 10;
constexpr std::int64_t kFew = 100;
constexpr auto kBetweenLines = std::chrono::seconds(5);
constexpr auto kBetweenDraws = std::chrono::milliseconds(100);

std::string number(double value) { return significant(value, 4); }

std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ' ');
  }
  return text;
}

std::string per_second(double samples) {
  return (samples < 100 ? number(samples) : grouped(std::llround(samples))) + " samples/s";
}

std::string plural(std::int64_t count, std::string_view noun) {
  return grouped(count).append(" ").append(noun).append(count == 1 ? "" : "s");
}

// Returns "3/10", or "3" if the total is unknown.
std::string of_total(std::int64_t value, std::int64_t total) {
  std::string text = grouped(value);
  if (total > 0) text.append("/").append(grouped(total));
  return text;
}

// Returns the metrics in the order of the display: accuracies first, then other metrics of validation, then the rest.
std::vector<std::string> metric_texts(const std::map<std::string, double>& metrics) {
  std::vector<std::pair<int, std::string>> ranked;
  for (const auto& [name, value] : metrics) {
    const int rank = name.find("accuracy") != std::string::npos ? 0 : name.starts_with("val_") ? 1 : 2;
    ranked.emplace_back(rank, name + " " + number(value));
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  std::vector<std::string> texts;
  texts.reserve(ranked.size());
  for (auto& [rank, text] : ranked) texts.push_back(std::move(text));
  return texts;
}

std::string with_separators(const std::vector<std::string>& parts) { return joined(parts, kSeparator); }

}  // namespace

ProgressOptions progress_options(int fd, std::int64_t log_every, const Environment& env) {
  ProgressOptions options{.fd = fd, .log_every = log_every};
  options.is_terminal = ::isatty(fd) == 1 && env.get("TERM").value_or("dumb") != "dumb";
  options.colour = options.is_terminal && !env.get("NO_COLOR");
  options.columns = parsed_int<int>(env.get("COLUMNS").value_or("")).value_or(options.columns);
  return options;
}

Progress::Progress(ProgressOptions options, Now now)
    : options_(options), now_(std::move(now)), throughput_(kSpeedWindowSeconds) {}

Progress::~Progress() {
  if (bar_is_drawn_) [[maybe_unused]]
    const auto put = ::write(options_.fd, "\n", 1);
}

Verdict Progress::on(const RunStarted& event) {
  run_ = event;
  last_ = StepEnded{.step = event.first_step};
  const std::int64_t planned_epochs =
      event.epochs != 0 ? event.epochs : event.steps_total / std::max<std::int64_t>(event.steps_per_epoch, 1);
  epochs_are_few_ = planned_epochs > 0 && planned_epochs <= kFew;
  losses_are_few_ = options_.log_every > 0 && event.steps_total > 0 && event.steps_total / options_.log_every <= kFew;
  std::vector<std::string> parts = {event.name, plural(event.world, "rank"),
                                    "batch " + grouped(event.batch) + " (global " + grouped(event.global_batch) + ")"};
  if (event.epochs > 0) parts.push_back(plural(event.epochs, "epoch"));
  parts.push_back(plural(event.steps_per_epoch, "step") + " an epoch");
  parts.push_back(plural(event.parameters, "parameter"));
  if (event.resumed_from) {
    parts.push_back("resumed at step " + grouped(event.first_step) + " from " + event.resumed_from->string());
  }
  print(with_separators(parts));
  return Verdict::kContinue;
}

Verdict Progress::on(const EpochStarted& event) {
  if (!first_epoch_at_) first_epoch_at_ = now_();
  end_epoch_without_validation();
  epoch_steps_ = event.steps;
  return Verdict::kContinue;
}

Verdict Progress::on(const StepEnded& event) {
  throughput_.add(event.samples, event.seconds);
  last_ = event;
  if (event.loss) loss_ = event.loss;
  if (event.step_in_epoch == epoch_steps_) epoch_is_unreported_ = true;
  if (options_.is_terminal) {
    const auto now = now_();
    if (now - drawn_at_ >= kBetweenDraws) draw(now);
  }
  // On a terminal the live line shows the loss already. So a line for a logged loss is printed only if there are too
  // many epochs to print a line for each.
  if (event.loss && !(options_.is_terminal && epochs_are_few_)) {
    print_sparsely(losses_are_few_, [&] {
      std::vector<std::string> parts = {step_text(), epoch_text(event.epoch), "loss " + number(*event.loss),
                                        speed_text()};
      if (const auto left = left_text(now_()); !left.empty()) parts.push_back(left);
      return with_separators(parts);
    });
  }
  return Verdict::kContinue;
}

Verdict Progress::on(const ValidationEnded& event) {
  epoch_is_unreported_ = false;
  print_sparsely(epochs_are_few_, [&] {
    std::vector<std::string> parts = {epoch_text(event.epoch), step_text(), "train_loss " + number(event.train_loss)};
    for (auto& text : metric_texts(event.metrics)) parts.push_back(std::move(text));
    parts.push_back(speed_text());
    return with_separators(parts);
  });
  return Verdict::kContinue;
}

Verdict Progress::on(const RunEnded& event) {
  end_epoch_without_validation();
  std::vector<std::string> parts;
  if (event.stopped_by != "max_epochs" && event.stopped_by != "max_steps") {
    parts.push_back("stopped by " + event.stopped_by + " at step " + grouped(event.step));
  }
  for (auto& text : metric_texts(event.metrics)) parts.push_back(std::move(text));
  parts.push_back(per_second(event.samples_per_second));
  parts.push_back(run_.run_dir.string());
  print(with_separators(parts));
  return Verdict::kContinue;
}

void Progress::end_epoch_without_validation() {
  if (!std::exchange(epoch_is_unreported_, false)) return;
  print_sparsely(epochs_are_few_, [&] {
    std::vector<std::string> parts = {epoch_text(last_.epoch), step_text()};
    if (loss_) parts.push_back("loss " + number(*loss_));
    parts.push_back(speed_text());
    return with_separators(parts);
  });
}

void Progress::print(std::string line) {
  if (bar_is_drawn_) line.insert(0, kClearLine);
  bar_is_drawn_ = false;
  line += '\n';
  [[maybe_unused]] const auto put = ::write(options_.fd, line.data(), line.size());
  printed_at_ = now_();
}

void Progress::print_sparsely(bool are_few, const std::function<std::string()>& line) {
  if (are_few || now_() - printed_at_ >= kBetweenLines) print(line());
}

void Progress::draw(Clock::time_point now) {
  std::optional<double> part;
  if (run_.steps_total > 0) part = static_cast<double>(last_.step) / static_cast<double>(run_.steps_total);
  const std::array<std::string, 5> texts = {epoch_text(last_.epoch), step_text(),
                                            loss_ ? "loss " + number(*loss_) : std::string(), left_text(now),
                                            speed_text()};
  const std::string line = live_line(part, texts, room_of(options_.fd, options_.columns), options_.colour);
  [[maybe_unused]] const auto put = ::write(options_.fd, line.data(), line.size());
  bar_is_drawn_ = true;
  drawn_at_ = now;
}

// People count epochs from 1.
std::string Progress::epoch_text(std::int64_t epoch) const { return "epoch " + of_total(epoch + 1, run_.epochs); }

std::string Progress::step_text() const { return "step " + of_total(last_.step, run_.steps_total); }

std::string Progress::speed_text() const { return per_second(throughput_.per_second()); }

std::string Progress::left_text(Clock::time_point now) const {
  const std::int64_t done = last_.step - run_.first_step;
  if (run_.steps_total <= 0 || done <= 0 || !first_epoch_at_) return {};
  const double a_step = seconds_between(*first_epoch_at_, now) / static_cast<double>(done);
  const double seconds = a_step * static_cast<double>(std::max<std::int64_t>(run_.steps_total - last_.step, 0));
  return hh_mm_ss(std::chrono::seconds(std::llround(seconds))) + " left";
}

}  // namespace lockstep
