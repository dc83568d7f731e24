// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/signal_option.h"

#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/flag/limit_signal.h"

namespace lockstep {
namespace {

constexpr std::string_view kDefaultSeconds = "60";

/// Returns a signal's name without SIG. It also knows the numbers that are the same on every Linux.
std::string signal_name(std::string word) {
  constexpr auto kNumbers = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"1", "HUP"}, {"2", "INT"}, {"10", "USR1"}, {"12", "USR2"}, {"15", "TERM"}});
  for (auto& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (word.starts_with("SIG")) word.erase(0, 3);
  for (const auto& [number, name] : kNumbers) {
    if (word == number) return std::string(name);
  }
  return word;
}

/// Returns the signal in a command such as "kill -USR1 …", "kill -s USR1", "scancel --signal=USR1" or "scancel -s
/// USR1".
std::optional<std::string> sent_in(std::string_view line) {
  std::string text(line);
  for (auto& c : text) {
    if (c == '=' || c == '\'' || c == '"' || c == ';' || c == '(' || c == '{') c = ' ';
  }
  bool is_sender = false;
  bool is_next = false;
  for (const auto& word : split(text, ' ')) {
    if (word.empty()) continue;
    if (word.starts_with('#')) break;
    if (is_next) return signal_name(word);
    if (word == "kill" || word == "scancel" || word == "pkill") is_sender = true;
    if (!is_sender || !word.starts_with('-')) continue;
    if (word == "-s" || word == "--signal") {
      is_next = true;
    } else if (word.size() > 2 && !word.starts_with("--")) {
      return signal_name(word.substr(word.starts_with("-s") && word[2] != 'i' ? 2 : 1));
    }
  }
  return std::nullopt;
}

std::optional<std::string> sent_by(const std::vector<std::string>& script) {
  for (const auto& line : script) {
    if (auto sent = sent_in(line)) return sent;
  }
  return std::nullopt;
}

}  // namespace

SignalRequest signal_request(std::string_view option, const std::vector<std::string>& script) {
  const auto colon = option.find(':');
  const bool is_to_shell =
      colon != std::string_view::npos && option.substr(0, colon).find('B') != std::string_view::npos;
  const auto signal = colon == std::string_view::npos ? option : option.substr(colon + 1);
  const auto at = signal.find('@');
  auto name = signal_name(std::string(signal.substr(0, at)));
  const auto seconds = at == std::string_view::npos ? kDefaultSeconds : signal.substr(at + 1);
  if (is_to_shell) {
    const auto sent = sent_by(script);
    if (!sent) {
      return {.left_out =
                  "the batch shell alone gets it, and hands no signal on to the ranks; with ours --chain K goes "
                  "on in a next job before the time is up"};
    }
    name = *sent;
  }
  const auto value = name + "@" + std::string(seconds);
  try {
    static_cast<void>(limit_signal(value));
    return {.value = value};
  } catch (const Error&) {
    return {.left_out = "ours sends USR1, USR2, TERM, INT or HUP, 1 to 65535 whole seconds before the end"};
  }
}

}  // namespace lockstep
