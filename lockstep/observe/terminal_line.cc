// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/terminal_line.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

std::string bar(double part, int width, bool colour) {
  const int filled = std::clamp(static_cast<int>(part * width), 0, width);
  std::string text = colour ? "\x1b[32m" : "";
  for (int i = 0; i < filled; ++i) text += "━";
  if (colour) text += "\x1b[0;2m";
  for (int i = filled; i < width; ++i) text += "─";
  if (colour) text += "\x1b[0m";
  return text;
}

}  // namespace

int room_of(int fd, int columns) {
  winsize size{};
  const bool is_told = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // On some terminals a line of the full width wraps, so one column is left free.
  return (is_told ? size.ws_col : columns) - 1;
}

std::string live_line(std::optional<double> part, std::span<const std::string> texts, int room, bool colour) {
  constexpr int kNarrowest = 8;
  constexpr int kWidest = 40;
  const bool has_bar = part && room >= 5 * kNarrowest;
  const int bar_width = has_bar ? std::clamp(room / 8, kNarrowest, kWidest) : 0;
  const auto text_width = static_cast<std::size_t>(has_bar ? room - bar_width - 1 : std::max(room, 0));
  std::string line(texts.front());
  for (const std::string& text : texts.subspan(1)) {
    if (text.empty() || width_of(line) + width_of(kSeparator) + width_of(text) > text_width) continue;
    line.append(kSeparator).append(text);
  }
  if (has_bar) line.insert(0, bar(*part, bar_width, colour) + ' ');
  return line.insert(0, kClearLine);
}

}  // namespace lockstep
