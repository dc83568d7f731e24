// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/work_bar.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/observe/terminal_line.h"

namespace lockstep {
namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr auto kBetweenLines = std::chrono::seconds(10);

void put(int fd, const std::string& text) {
  [[maybe_unused]] const auto written = ::write(fd, text.data(), text.size());
}

}  // namespace

WorkBar::WorkBar(ProgressOptions options, std::string label, std::string unit, Now now)
    : options_(options), label_(std::move(label)), unit_(std::move(unit)), now_(std::move(now)) {}

WorkBar::~WorkBar() {
  if (is_drawn_) put(options_.fd, std::string(kClearLine));
}

void WorkBar::show(std::uint64_t done, std::uint64_t all) {
  const auto now = now_();
  if (!std::exchange(is_begun_, true)) {
    first_ = done;
    begun_at_ = shown_at_ = now;
    if (!options_.is_terminal) return;
  } else if (now - shown_at_ < (options_.is_terminal ? kBetweenDraws : kBetweenLines)) {
    return;
  }
  shown_at_ = now;
  const double seconds = seconds_between(begun_at_, now);
  const double speed = seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
  std::array<std::string, 4> texts = {label_, amount(done)};
  if (all > 0) texts[1] += " of " + amount(all);
  if (speed > 0) {
    texts[2] = amount(static_cast<std::uint64_t>(std::llround(speed))) + "/s";
    const double left = static_cast<double>(all > done ? all - done : 0) / speed;
    if (all > 0) texts[3] = hh_mm_ss(std::chrono::seconds(std::llround(left))) + " left";
  }
  if (options_.is_terminal) {
    std::optional<double> part;
    if (all > 0) part = static_cast<double>(done) / static_cast<double>(all);
    put(options_.fd, live_line(part, texts, room_of(options_.fd, options_.columns), options_.colour));
    is_drawn_ = true;
  } else {
    std::string line = texts[0];
    for (std::size_t i = 1; i < texts.size(); ++i) {
      if (!texts.at(i).empty()) line.append(kSeparator).append(texts.at(i));
    }
    put(options_.fd, line + "\n");
  }
}

std::string WorkBar::amount(std::uint64_t value) const {
  return unit_.empty() ? human_bytes(value) : std::to_string(value) + " " + unit_;
}

}  // namespace lockstep
