// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/caches.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <set>

#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A cache of compiled kernels. The entry has the variable that sets the cache's folder, and its default folder below
/// the home folder.
struct Cache {
  const char* variable;
  const char* at_home;
  bool is_amd;
};
constexpr auto kCaches = std::to_array<Cache>({{"MIOPEN_USER_DB_PATH", ".config/miopen", true},
                                               {"MIOPEN_CUSTOM_CACHE_DIR", ".cache/miopen", true},
                                               {"TRITON_CACHE_DIR", ".triton/cache", false},
                                               {"TORCHINDUCTOR_CACHE_DIR", "", false}});

constexpr const char* kFix =
    "start the program with `lockstep exec`, which puts caches on the node's own disk, one for each job";

void check_owner(const DoctorContext& of, const std::string& variable, const fs::path& folder, Findings& findings) {
  struct stat found {};
  const auto place = nearest_there(of.at_root(folder));
  const bool is_there = place == of.at_root(folder);
  if (::stat(place.c_str(), &found) != 0) return;
  const std::string what = variable + "='" + folder.string() + "'";
  if (is_there && found.st_uid != ::geteuid()) {
    findings.error("cache-of-another",
                   what + " belongs to user " + std::to_string(found.st_uid) + ", want " + std::to_string(::geteuid()) +
                       ": one can neither trust nor write it",
                   "unset " + variable + " and " + kFix);
  } else if (!may(place, W_OK | X_OK)) {
    findings.error("cache-not-writable",
                   what + (is_there ? " cannot be written" : " is not there and cannot be made") +
                       " by this user: kernels are compiled anew in each process, or the program fails",
                   "unset " + variable + " and " + kFix);
  }
}

}  // namespace

void check_caches(const DoctorContext& of, Findings& findings) {
  const auto gpus = usable_gpus(of);
  const bool is_amd = !gpus.empty() && gpus.front().maker == GpuMaker::kAmd;
  std::set<std::string> seen;
  for (const auto& cache : kCaches) {
    if (gpus.empty() || (cache.is_amd && !is_amd)) continue;
    const auto set = of.env.get(cache.variable);
    const auto home = of.env.get("HOME");
    if (set) {
      if (!seen.insert(*set).second) continue;
      check_owner(of, cache.variable, *set, findings);
      const auto kind = file_system_of(of, *set);
      if (!is_shared(kind)) continue;
      findings.warning("cache-shared-file-system",
                       cache.variable + std::string("='") + *set + "' lies on " + kind +
                           ", which all nodes see: ranks wait for each other's locks, and may read halves of files",
                       std::string("unset it and ") + kFix);
    } else if (home && *cache.at_home != '\0' && of.in_job()) {
      const auto folder = fs::path(*home) / cache.at_home;
      const auto kind = file_system_of(of, folder);
      if (!is_shared(kind)) continue;
      findings.note("cache-at-home",
                    cache.variable + std::string(" is not set, so that cache goes to '") + folder.string() + "' on " +
                        kind + ", which all nodes see",
                    kFix);
    }
  }
}

}  // namespace lockstep
