// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep {

/// While it lives, BatchReader::next() on this thread tells it of the samples that it waits for: each one that next()
/// decodes itself, before it does so, and, a second after the last, the first of the batch that a worker is at.
///
///     const WaitNote note([](std::int64_t id) { std::cerr << "waiting for sample " << id << "\n"; });
///     const auto batch = reader.next();
///
/// Threads: `note` is called on the thread that made it. If there are several, the newest is told.
class WaitNote {
 public:
  explicit WaitNote(std::function<void(std::int64_t id)> note);
  ~WaitNote();
  WaitNote(const WaitNote&) = delete;
  WaitNote& operator=(const WaitNote&) = delete;

  /// Returns the newest of this thread, or null.
  static const WaitNote* current();

  void tell(std::int64_t id) const { note_(id); }

 private:
  std::function<void(std::int64_t id)> note_;
  const WaitNote* outer_;
};

}  // namespace lockstep
