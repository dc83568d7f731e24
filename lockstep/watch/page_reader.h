// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/watch/page.h"

namespace lockstep {

/// The newest collective of a rank.
struct Collective {
  std::uint64_t number = 0;  ///< Counts from 1. 0 for none so far.
  std::string what;          ///< "all_reduce Float"
  std::int64_t elements = 0;
  std::string detail{};  ///< "bucket 3" or "[64, 10]". Empty if unknown.

  /// True if both are the same call. `detail` is not compared, since it is for people.
  bool operator==(const Collective& other) const {
    return number == other.number && what == other.what && elements == other.elements;
  }
};

/// One reading of a page. The rank continues meanwhile, so parts of it may be of slightly different moments. The
/// numbers of a collective always belong together.
struct PageSight {
  pid_t pid = -1;
  std::uint64_t changes = 0;
  Phase phase = Phase::kStarting;
  std::int64_t step = 0;
  std::int64_t first_sample = -1;
  std::int64_t samples = 0;
  std::array<std::uint64_t, kPhases> entered{};
  Collective collective;
  std::optional<std::array<double, kPhases>> spent_s{};  ///< In each phase, up to now. Version 2.
  double noted_s_ago = -1;           ///< Seconds since the newest note, by the rank's own clock. -1 if unknown.
  pid_t thread = -1;                 ///< The training thread, or -1.
  std::string run_dir{};             ///< As the rank knows it. Empty if it does not.
  std::int64_t loading_sample = -1;  ///< Id of the sample that the rank waits for, or -1.
  std::optional<int> told_by{};      ///< The rank whose error this rank throws, if it is not its own.
};

/// Reads a page of version 1 or 2. Returns nothing if the rank has not written the page yet, or writes it so often that
/// the reader gets no complete page.
std::optional<PageSight> sight_of(const PageLayout& page);

/// Pages for ranks that will be started. They are memory without a file name, and vanish with the last process that
/// uses them.
class SharedPage {
 public:
  /// Throws: Error(kEnvironment) if the system gives no memory.
  SharedPage();
  ~SharedPage();
  SharedPage(SharedPage&& other) noexcept;
  SharedPage& operator=(SharedPage&&) = delete;
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  /// Passes the page on to the program that this process becomes. Call it in the child, before exec. Returns the value
  /// of LOCKSTEP_PAGE.
  std::string give() const;

  std::optional<PageSight> sight() const { return sight_of(*page_); }
  const PageLayout& layout() const { return *page_; }

 private:
  FileDescriptor file_;
  const PageLayout* page_ = nullptr;
};

}  // namespace lockstep
