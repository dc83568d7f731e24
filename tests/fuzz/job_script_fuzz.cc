// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/cluster/script/our_request.h"
#include "lockstep/cluster/script/script_findings.h"
#include "lockstep/cluster/script/shell_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = lockstep::read_batch_file("job.sh", text, [](const auto&) { return std::nullopt; });
  const auto lines = static_cast<int>(file.lines.size()) + 1;
  lockstep::Profile profile;
  profile.name = "fuzz";
  profile.devices.count = 4;
  profile.devices.backend = "cuda";
  profile.slurm.account_required = true;
  const lockstep::ScriptContext context{.file = file, .profile = profile, .is_here = false, .env = {}, .is_folder = {}};
  for (const auto& finding : lockstep::script_findings(context)) {
    LOCKSTEP_ASSERT(finding.line >= 0 && finding.line <= lines);
    LOCKSTEP_ASSERT(!finding.fact.empty() && !finding.fix.empty());
  }
  try {
    const auto ours = lockstep::our_request(context, {});
    LOCKSTEP_ASSERT(!ours.request.flags.program.empty());
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kUsage) throw;
  }
  return 0;
}
