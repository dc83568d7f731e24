// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

enum class PickleKind {
  kNone,
  kBool,
  kInt,
  kBigInt,  ///< Beyond 64 bits: `text` has its bytes, the lowest first.
  kReal,
  kText,   ///< UTF-8.
  kBytes,  ///< Also Python 2's str, which is either.
  kList,
  kTuple,
  kSet,
  kDict,
  kGlobal,      ///< The name of a class or function, "module.name". It is only a name.
  kCall,        ///< What calling `callee` with `arguments` would have made. Nothing was called.
  kPersistent,  ///< What lies outside the pickle: `arguments` says where.
};

/// One value of a pickle. Parts are values of the same Pickle; the same part may be reached on several ways, also in a
/// circle: whoever walks down must bound the depth and the number of values that it looks at.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::int64_t integer = 0;    ///< kInt, kBool.
  double real = 0;             ///< kReal.
  std::string_view text = {};  ///< kText, kBytes, kBigInt, kGlobal. Mostly a view of the pickle.
  /// kList, kTuple, kSet: the parts. kDict, kCall: keys and values that were set, in turn.
  std::vector<const PickleValue*> items = {};
  const PickleValue* callee = nullptr;     ///< kCall: a kGlobal.
  const PickleValue* arguments = nullptr;  ///< kCall: a kTuple. kPersistent: any.
  const PickleValue* state = nullptr;      ///< kCall: what __setstate__ would have got; null where nothing.

  bool is_call_of(std::string_view name) const { return kind == PickleKind::kCall && callee->text == name; }
  /// kText, or kBytes, which is what Python 2 wrote for text.
  bool is_text() const { return kind == PickleKind::kText || kind == PickleKind::kBytes; }
};

/// A text of a pickle for a message: cut short, and without what would disturb a terminal.
std::string pickle_text(std::string_view text);

/// What `text.encode("latin1")` gives in Python; nothing for text beyond Latin-1.
std::optional<std::string> latin1_of(std::string_view text);

/// "a list", "a call of torch.device": for messages.
std::string pickle_kind(const PickleValue& value);

/// Keys and values of a dict, or of what is one in Python: OrderedDict, defaultdict, Counter. Nothing for other values.
using PickleEntries = std::vector<std::pair<const PickleValue*, const PickleValue*>>;
std::optional<PickleEntries> pickle_entries(const PickleValue& value);

/// The value of a text key; null where there is none, or `value` is no dict. As in Python the last of several wins.
const PickleValue* pickle_entry(const PickleValue& value, std::string_view key);

/// Argument `i` of a call, or part `i` of a tuple or list; null where there are fewer.
const PickleValue* pickle_part(const PickleValue& value, std::size_t i);

}  // namespace lockstep
