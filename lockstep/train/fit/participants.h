// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "lockstep/observe/events.h"
#include "lockstep/train/extension.h"
#include "lockstep/train/fit/stop_request.h"

namespace lockstep {

/// The listeners that hear of a training and the extensions that take part in it.
class Participants {
 public:
  /// Both lists must outlive this object.
  Participants(const std::vector<Listener*>& listeners, const std::vector<Extension*>& extensions)
      : listeners_(listeners), extensions_(extensions) {}

  /// Tells an event to all listeners. `stop` takes the answer of one that wants to stop.
  template <typename Event>
  void tell(const Event& event, StopRequest& stop) const {
    for (auto* listener : listeners_) {
      if (listener->on(event) == Verdict::kStop) stop.ask("callback: " + listener->name());
    }
  }

  /// True if an extension's weights lack their BatchNorm statistics.
  bool want_fresh_statistics() const {
    return std::ranges::any_of(extensions_, [](const auto* each) { return each->wants_fresh_statistics(); });
  }

  const std::vector<Listener*>& listeners() const { return listeners_; }
  const std::vector<Extension*>& extensions() const { return extensions_; }

 private:
  const std::vector<Listener*>& listeners_;
  const std::vector<Extension*>& extensions_;
};

}  // namespace lockstep
