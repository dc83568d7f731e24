// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/pickle.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Kind = PickleKind;

std::string hex_byte(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("0x") + kDigits[byte >> 4U] + kDigits[byte & 15U];
}

}  // namespace

/// Runs a pickle. A pickle is a program for a small stack machine. This machine makes no calls: it only records them.
class PickleReader {
 public:
  PickleReader(std::span<const std::byte> bytes, const std::string& name, Pickle::NameRule is_allowed)
      : bytes_(bytes), name_(name), is_allowed_(is_allowed) {}

  Pickle result() {
    while (!is_done_) {
      opcode_at_ = at_;
      const auto op = number<unsigned char>();
      if (!read_scalar(op) && !read_text(op) && !read_container(op) && !read_object(op) && !read_other(op)) {
        fail("the opcode is " + hex_byte(op) + ", want one of pickle's protocols 2 to 5",
             "save it anew with a current Python; older protocols are not read");
      }
    }
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(const std::string& fact,
                         std::string_view hint = "the file is damaged or was not written whole; copy it again") const {
    throw Error(ErrorKind::kData, name_ + ": at byte " + std::to_string(opcode_at_) + " of the pickle, " + fact, hint);
  }

  std::string_view taken(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      fail(std::to_string(count) + " bytes should follow, but the file ends after " +
           std::to_string(bytes_.size() - at_));
    }
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, taken(sizeof(Number)).data(), sizeof(Number));
    return value;
  }

  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) fail("a name has no end");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  PickleValue& push(PickleValue value) {
    if (pickle_.values_.size() >= Pickle::kMostValues) {
      fail("there are more than " + std::to_string(Pickle::kMostValues) + " values", "it holds no weights or images");
    }
    pickle_.values_.push_back(std::move(value));
    stack_.push_back(&pickle_.values_.back());
    return pickle_.values_.back();
  }
  void push(Kind kind) { push(PickleValue{.kind = kind}); }
  void push_integer(std::int64_t value, Kind kind = Kind::kInt) { push(PickleValue{.kind = kind, .integer = value}); }
  void push_text(Kind kind, std::string_view text) { push(PickleValue{.kind = kind, .text = text}); }

  PickleValue& top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("nothing is there to work on");
    return *stack_.back();
  }
  PickleValue& popped() {
    PickleValue& value = top();
    stack_.pop_back();
    return value;
  }
  /// Removes the last mark and the values above it from the stack, and returns the values.
  std::vector<const PickleValue*> popped_to_mark() {
    if (marks_.empty()) fail("a group ends that has not begun");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> parts(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return parts;
  }

  void push_long(std::uint64_t count) {
    const std::string_view digits = taken(count);
    if (count > sizeof(std::int64_t)) return push_text(Kind::kBigInt, digits);
    std::uint64_t value = 0;
    std::memcpy(&value, digits.data(), digits.size());
    const bool is_negative = count > 0 && (static_cast<unsigned char>(digits.back()) & 0x80U) != 0;
    if (is_negative && count < sizeof value) value |= ~std::uint64_t{0} << (8 * count);
    push_integer(static_cast<std::int64_t>(value));
  }

  bool read_scalar(unsigned char op) {
    switch (op) {
      case 'N':
        push(Kind::kNone);
        return true;
      case 0x88:
        push_integer(1, Kind::kBool);
        return true;
      case 0x89:
        push_integer(0, Kind::kBool);
        return true;
      case 'J':
        push_integer(number<std::int32_t>());
        return true;
      case 'K':
        push_integer(number<std::uint8_t>());
        return true;
      case 'M':
        push_integer(number<std::uint16_t>());
        return true;
      case 0x8a:
        push_long(number<std::uint8_t>());
        return true;
      case 0x8b:
        push_long(number<std::uint32_t>());
        return true;
      case 'G': {
        const auto bits = __builtin_bswap64(number<std::uint64_t>());
        push(PickleValue{.kind = Kind::kReal, .real = std::bit_cast<double>(bits)});
        return true;
      }
      default:
        return false;
    }
  }

  bool read_text(unsigned char op) {
    switch (op) {
      case 'X':
        push_text(Kind::kText, taken(number<std::uint32_t>()));
        return true;
      case 0x8c:
        push_text(Kind::kText, taken(number<std::uint8_t>()));
        return true;
      case 0x8d:
        push_text(Kind::kText, taken(number<std::uint64_t>()));
        return true;
      case 'T':
      case 'B':
        push_text(Kind::kBytes, taken(number<std::uint32_t>()));
        return true;
      case 'U':
      case 'C':
        push_text(Kind::kBytes, taken(number<std::uint8_t>()));
        return true;
      case 0x8e:
      case 0x96:
        push_text(Kind::kBytes, taken(number<std::uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  void push_group(Kind kind, std::vector<const PickleValue*> parts) {
    if (kind == Kind::kDict && parts.size() % 2 != 0) fail("a dict has a key without a value");
    push(PickleValue{.kind = kind, .items = std::move(parts)});
  }
  void push_tuple(std::size_t size) {
    std::vector<const PickleValue*> parts(size);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) *part = &popped();
    push_group(Kind::kTuple, std::move(parts));
  }
  void add_parts(std::vector<const PickleValue*> parts, Kind to) {
    PickleValue& target = top();
    const bool fits = target.kind == to || (to == Kind::kDict && target.kind == Kind::kCall);
    if (!fits) fail("parts are added to " + pickle_kind(target));
    if (to == Kind::kDict && parts.size() % 2 != 0) fail("a dict has a key without a value");
    target.items.insert(target.items.end(), parts.begin(), parts.end());
  }

  bool read_container(unsigned char op) {
    switch (op) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ')':
        push(Kind::kTuple);
        return true;
      case ']':
        push(Kind::kList);
        return true;
      case '}':
        push(Kind::kDict);
        return true;
      case 0x8f:
        push(Kind::kSet);
        return true;
      case 't':
        push_group(Kind::kTuple, popped_to_mark());
        return true;
      case 'l':
        push_group(Kind::kList, popped_to_mark());
        return true;
      case 'd':
        push_group(Kind::kDict, popped_to_mark());
        return true;
      case 0x91:
        push_group(Kind::kSet, popped_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple(op - 0x84U);
        return true;
      case 'a':
        add_parts({&popped()}, Kind::kList);
        return true;
      case 'e':
        add_parts(popped_to_mark(), Kind::kList);
        return true;
      case 0x90:
        add_parts(popped_to_mark(), Kind::kSet);
        return true;
      case 'u':
        add_parts(popped_to_mark(), Kind::kDict);
        return true;
      case 's': {
        const PickleValue* value = &popped();
        add_parts({&popped(), value}, Kind::kDict);
        return true;
      }
      default:
        return false;
    }
  }

  void push_global(std::string_view module, std::string_view name) {
    std::string full = std::string(module) + "." + std::string(name);
    if (!is_allowed_(full)) {
      fail("it names '" + pickle_text(full) +
               "', which is not among the names that weights and data sets need; nothing was run",
           "whoever wrote it can save plain tensors instead: torch.save(model.state_dict(), FILE), or safetensors");
    }
    push_text(Kind::kGlobal, pickle_.texts_.emplace_back(std::move(full)));
  }
  /// Handles bytes as Python 3 writes them with protocol 2: as a call that encodes Latin-1 text, or as bytes() if they
  /// are empty.
  void push_encoded(const PickleValue& arguments) {
    const PickleValue* text = pickle_part(arguments, 0);
    auto bytes = latin1_of(text == nullptr ? "" : text->text);
    if (!bytes) fail("bytes are given as text beyond Latin-1");
    // A few bytes of the file can refer to the same text any number of times. So the sum of all encoded bytes is
    // limited.
    encoded_ += bytes->size();
    if (encoded_ > bytes_.size()) fail("it makes more bytes of its texts than there are");
    push_text(Kind::kBytes, pickle_.texts_.emplace_back(std::move(*bytes)));
  }
  void push_call(const PickleValue& callee, const PickleValue& arguments) {
    if (callee.kind != Kind::kGlobal) fail("it calls " + pickle_kind(callee) + ", want a name");
    if (arguments.kind != Kind::kTuple) fail("a call's arguments are " + pickle_kind(arguments) + ", want a tuple");
    if (callee.text == "_codecs.encode" || callee.text.ends_with(".bytes")) return push_encoded(arguments);
    push(PickleValue{.kind = Kind::kCall, .callee = &callee, .arguments = &arguments});
  }
  void build() {
    const PickleValue& state = popped();
    if (top().kind != Kind::kCall) fail("a state is set on " + pickle_kind(top()) + ", want an object");
    top().state = &state;
  }

  bool read_object(unsigned char op) {
    switch (op) {
      case 'c': {
        const auto module = line();
        push_global(module, line());
        return true;
      }
      case 0x93: {
        const PickleValue& name = popped();
        const PickleValue& module = popped();
        if (!name.is_text() || !module.is_text()) fail("a name is " + pickle_kind(name) + ", want text");
        push_global(module.text, name.text);
        return true;
      }
      case 'R':
      case 0x81: {
        const PickleValue& arguments = popped();
        push_call(popped(), arguments);
        return true;
      }
      case 'b':
        build();
        return true;
      case 'Q': {
        const PickleValue& place = popped();
        push(PickleValue{.kind = Kind::kPersistent, .arguments = &place});
        return true;
      }
      // An instance of an old-style class. It is not read, but the error names its class.
      case 'i': {
        const auto module = line();
        push_global(module, line());
        return false;
      }
      default:
        return false;
    }
  }

  void remember(std::uint64_t index) { memo_[index] = &top(); }
  void recall(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail("it recalls value " + std::to_string(index) + ", which it has not kept");
    stack_.push_back(found->second);
  }
  void finish() {
    pickle_.root_ = &popped();
    if (!stack_.empty()) fail("the end comes with " + std::to_string(stack_.size()) + " values left over");
    pickle_.size_ = at_;
    is_done_ = true;
  }

  bool read_other(unsigned char op) {
    switch (op) {
      case 0x80:
        if (const auto protocol = number<std::uint8_t>(); protocol < 2 || protocol > 5) {
          fail("the protocol is " + std::to_string(protocol) + ", want 2 to 5",
               "save it anew with a current Python: pickle.dump(value, file, protocol=4)");
        }
        return true;
      // A frame's length only tells how many bytes to read at once. It is skipped.
      case 0x95:
        number<std::uint64_t>();
        return true;
      case 'q':
        remember(number<std::uint8_t>());
        return true;
      case 'r':
        remember(number<std::uint32_t>());
        return true;
      case 0x94:
        remember(memo_.size());
        return true;
      case 'h':
        recall(number<std::uint8_t>());
        return true;
      case 'j':
        recall(number<std::uint32_t>());
        return true;
      case '0':
        popped();
        return true;
      case '1':
        popped_to_mark();
        return true;
      case '2':
        stack_.push_back(&top());
        return true;
      case '.':
        finish();
        return true;
      default:
        return false;
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  Pickle::NameRule is_allowed_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::size_t encoded_ = 0;
  bool is_done_ = false;
  Pickle pickle_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

Pickle Pickle::read(std::span<const std::byte> bytes, const std::string& name, NameRule is_allowed) {
  return PickleReader(bytes, name, is_allowed).result();
}

}  // namespace lockstep
