// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/observe/events.h"
#include "lockstep/train/extension.h"
#include "lockstep/train/fit/stop_request.h"

namespace lockstep {

/// A metric by which something is decided, and the setting that names it.
struct Monitor {
  std::string who;     ///< "early_stopping", "plateau"…
  std::string metric;  ///< "val_loss"
};

/// The last events that listeners were told. If a step is repeated, its events are not told again.
struct ToldEvents {
  std::int64_t step = -1;
  std::int64_t epoch = -1;
  std::int64_t validation = -1;  ///< The step after which the last validation was.

  /// Sets `last` to `now`. Returns false if `last` was not less, so that the event is not new.
  static bool is_new(std::int64_t& last, std::int64_t now) { return std::exchange(last, now) < now; }
};

/// The listeners that hear of a training and the extensions that take part in it.
class Participants {
 public:
  /// Both lists must outlive this object.
  Participants(const std::vector<Listener*>& listeners, const std::vector<Extension*>& extensions)
      : listeners_(listeners), extensions_(extensions) {}

  /// Tells an event to all listeners. If one answers that training should stop, `stop` gets its reason.
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

  /// Returns the metrics that listeners of this rank wait for.
  std::vector<Monitor> monitors() const {
    std::vector<Monitor> out;
    for (const auto* each : listeners_) {
      if (auto metric = each->monitor(); !metric.empty()) out.push_back({each->name(), std::move(metric)});
    }
    return out;
  }

  const std::vector<Listener*>& listeners() const { return listeners_; }
  const std::vector<Extension*>& extensions() const { return extensions_; }

 private:
  const std::vector<Listener*>& listeners_;
  const std::vector<Extension*>& extensions_;
};

}  // namespace lockstep
