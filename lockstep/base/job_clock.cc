// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/job_clock.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

JobClock::JobClock(const Environment& env) {
  const auto text = env.get("LOCKSTEP_JOB_END");
  if (!text || text->empty()) return;
  const auto seconds = parsed_int<std::int64_t>(*text);
  if (!seconds || *seconds <= 0) {
    throw Error(ErrorKind::kUsage, "LOCKSTEP_JOB_END is '" + *text + "', want the job's end in seconds since 1970",
                "unset it: job.sh exports it");
  }
  end_ = Time(std::chrono::seconds(*seconds));
}

bool JobClock::is_time_to_stop(Time now, double longest_save_s, double longest_step_s) const {
  if (!end_) return false;
  constexpr double kReserveSeconds = 30;
  const auto left = std::chrono::duration<double>(*end_ - now).count();
  return left <= 2 * longest_save_s + 2 * longest_step_s + kReserveSeconds;
}

}  // namespace lockstep
