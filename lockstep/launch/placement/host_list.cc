// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/host_list.h"

#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostHosts = 1'000'000;
constexpr std::string_view kSeparators = ", \t\n";

/// Reads one host list expression from left to right. It keeps the position, which error messages name.
class HostListReader {
 public:
  explicit HostListReader(std::string_view text) : text_(text) {}

  std::vector<std::string> hosts() {
    std::vector<std::string> all;
    while (true) {
      at_ = text_.find_first_not_of(kSeparators, at_);
      if (at_ == std::string_view::npos) return all;
      read_word();
      push_word(all);
    }
  }

 private:
  /// In a word, literal text and brackets alternate. So literals_ has one entry more than brackets_. A literal may be
  /// empty.
  void read_word() {
    literals_.assign(1, {});
    brackets_.clear();
    for (; at_ < text_.size() && kSeparators.find(text_[at_]) == std::string_view::npos; ++at_) {
      if (text_[at_] == ']') fail(at_, "']' has no '['");
      if (text_[at_] == '[') {
        brackets_.push_back(bracket());
        literals_.emplace_back();
      } else {
        literals_.back() += text_[at_];
      }
    }
    if (!brackets_.empty() && !literals_.back().empty()) {
      fail(at_ - literals_.back().size(), "nothing may follow a name's last bracket, found '" + literals_.back() + "'");
    }
  }

  /// Returns the values of the bracket that opens at at_, as text. Leaves at_ on its ']'.
  std::vector<std::string> bracket() {
    const std::size_t close = text_.find_first_of("[]", at_ + 1);
    if (close == std::string_view::npos || text_[close] == '[') fail(at_, "'[' is not closed");
    std::vector<std::string> values;
    std::size_t from = at_ + 1;
    for (const auto& range : split(text_.substr(from, close - from), ',')) {
      push_range(range, from, values);
      from += range.size() + 1;
    }
    at_ = close;
    return values;
  }

  void push_range(const std::string& range, std::size_t from, std::vector<std::string>& values) const {
    const std::size_t dash = range.find('-');
    const std::string low_text = range.substr(0, dash);
    const auto low = parsed_int<std::uint64_t>(low_text);
    const auto high = dash == std::string::npos ? low : parsed_int<std::uint64_t>(range.substr(dash + 1));
    if (!low || !high) fail(from, "'" + range + "' is not a number or a range of numbers");
    if (*high < *low) fail(from, "range '" + range + "' runs backwards");
    if (*high - *low >= kMostHosts - values.size()) fail_for_size(from);
    for (std::uint64_t value = *low, left = *high - *low + 1; left > 0; ++value, --left) {
      std::string digits = std::to_string(value);
      // All numbers of a range are padded to the width of its first number. So [8-010] is 8, 9, 10 and [08-10] is 08,
      // 09, 10.
      if (digits.size() < low_text.size()) digits.insert(0, low_text.size() - digits.size(), '0');
      values.push_back(std::move(digits));
    }
  }

  void push_word(std::vector<std::string>& all) const {
    std::size_t count = 1;
    for (const auto& bracket : brackets_) {
      if (bracket.size() > kMostHosts / count) fail_for_size(at_);
      count *= bracket.size();
    }
    if (count > kMostHosts - all.size()) fail_for_size(at_);
    std::vector<std::size_t> index(brackets_.size(), 0);
    for (std::size_t i = 0; i < count; ++i) {
      std::string host = literals_[0];
      for (std::size_t b = 0; b < brackets_.size(); ++b) host += brackets_[b][index[b]] + literals_[b + 1];
      all.push_back(std::move(host));
      advance(index);
    }
  }

  // As in Slurm, the last bracket varies fastest, then the first, the second, and so on.
  void advance(std::vector<std::size_t>& index) const {
    for (std::size_t turn = 0; turn < index.size(); ++turn) {
      const std::size_t b = turn == 0 ? index.size() - 1 : turn - 1;
      if (++index[b] < brackets_[b].size()) return;
      index[b] = 0;
    }
  }

  [[noreturn]] void fail_for_size(std::size_t at) const {
    fail(at, "it names more than " + std::to_string(kMostHosts) + " hosts");
  }

  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    throw Error(ErrorKind::kUsage,
                "host list '" + std::string(text_) + "', character " + std::to_string(at + 1) + ": " + what,
                "a host list is like 'n[008-011,20]' or 'a[1-2]x[3-4],b5'");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> literals_;
  std::vector<std::vector<std::string>> brackets_;
};

}  // namespace

std::vector<std::string> expanded_hosts(std::string_view expression) { return HostListReader(expression).hosts(); }

std::vector<int> expanded_counts(std::string_view text) {
  const auto fail = [text](const std::string& part) {
    throw Error(ErrorKind::kEnvironment, "tasks per node '" + std::string(text) + "': '" + part + "' is not a count",
                "want counts as Slurm writes them, like '2(x3),1'");
  };
  std::vector<int> counts;
  for (const auto& part : split(text, ',')) {
    std::string_view number = part;
    int times = 1;
    if (const auto open = number.find("(x"); open != std::string_view::npos && number.ends_with(')')) {
      times = parsed_int<int>(number.substr(open + 2, number.size() - open - 3)).value_or(0);
      number = number.substr(0, open);
    }
    const int count = parsed_int<int>(number).value_or(0);
    if (count < 1 || times < 1 || static_cast<std::size_t>(times) > kMostHosts - counts.size()) fail(part);
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
  }
  return counts;
}

}  // namespace lockstep
