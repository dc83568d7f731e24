// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The exception that Lockstep throws. Its kind says what the caller should do, and gives the exit code.
///
///     try {
///       auto world = lockstep::join();
///     } catch (const lockstep::Error& error) {
///       std::cerr << "error: " << error.what() << "\n";
///       return lockstep::exit_code(error.kind());
///     }

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// Says what the caller should do about a failure. It does not say which folder the failure came from.
enum class ErrorKind {
  kUsage,        ///< The command or the call is wrong. Fix it and run again.
  kRecipe,       ///< A recipe or profile value is wrong.
  kEnvironment,  ///< The machine, the job or the scheduler is not as this run needs it.
  kData,         ///< A sample, file or header does not hold what it should.
  kIo,           ///< The system refused a read or a write. A retry may succeed.
  kPeer,         ///< Another rank is lost, late or different. Restart from a snapshot.
  kBug,          ///< We broke a promise. Report it.
};

/// Returns a command's exit code for an error of this kind: 2, 3, 4, 5, 6, 7 and 1, in the order above.
int exit_code(ErrorKind kind);

/// The exit code of a run that stopped on request and wrote a snapshot (EX_TEMPFAIL in sysexits.h).
inline constexpr int kExitStopped = 75;

/// An expected failure. The fact gives the value found and the value wanted. The hint gives the way out.
///
/// `what()` returns the fact. If there is a hint, a second line holds "  hint: " and the hint.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string_view fact, std::string_view hint = {});

  ErrorKind kind() const noexcept { return kind_; }

  /// Return the fact and the hint that the error was made of. Both views are valid as long as this error lives. A
  /// missing hint is empty.
  std::string_view fact() const noexcept { return {what(), fact_size_}; }
  std::string_view hint() const noexcept { return what() + hint_begin_; }

 private:
  ErrorKind kind_;
  std::size_t fact_size_;
  std::size_t hint_begin_;
};

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}  // namespace detail

}  // namespace lockstep

/// Throws Error(kBug) if `condition` is false. Use it for what Lockstep's own code guarantees, never for a caller's
/// mistake.
#define LOCKSTEP_ASSERT(condition) \
  ((condition) ? void(0) : ::lockstep::detail::assertion_failed(#condition, __FILE__, __LINE__))
